package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"sort"

	core "k8s.io/api/core/v1"
)

// Refusal is a pod that a filter keeps off the node that the plan gives it.
type Refusal struct {
	Pod    string `json:"pod"`
	Node   string `json:"node"`
	Reason string `json:"reason"`
}

// attempts are the orders tried before a plan counts as refused: pods with rules on others first; then those of the
// same labels level over zones, as pods that spread by each other's labels may need it; then as the plan names them, and
// shuffled, with those in front that were refused before.
const attempts = 16

// class is pods alike in everything but their names, with the nodes that they are for.
type class struct {
	pods  []*core.Pod
	nodes []string
	ruled bool
}

// bindable looks for an order in which kube-scheduler takes every pod on the node that the plan gives it, binding them
// one by one. What it takes depends on the order under spread and affinity; no order is better than another one, for
// kube-scheduler retries pods that it refused. So: take what it takes until no pod more is taken, in several orders.
// The scheduler returned stands at the end of the best of them, with the pods that were refused in it.
func bindable(ctx context.Context, problem *Problem, found *cluster) (*scheduler, []Refusal, error) {
	var best *scheduler
	var fewest []Refusal
	front := map[string]bool{}
	for attempt := 0; attempt < attempts; attempt++ {
		made, err := newScheduler(ctx, problem, found)
		if err != nil {
			return nil, nil, err
		}
		all := classes(found)
		if attempt == 1 {
			all = level(found)
		}
		refused := made.bind(ordered(all, attempt, front))
		if best == nil || len(refused) < len(fewest) {
			best, fewest = made, refused
		}
		if len(refused) == 0 {
			break
		}
		for _, each := range refused {
			front[each.Pod] = true
		}
	}
	return best, fewest, nil
}

func ordered(all []*class, attempt int, front map[string]bool) [][]*class {
	if attempt == 1 {
		return [][]*class{all}
	}
	if attempt > 2 {
		rand.New(rand.NewSource(int64(attempt))).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	first := func(each *class) bool {
		return slices.ContainsFunc(each.pods, func(pod *core.Pod) bool { return front[nameOf(pod)] })
	}
	sort.SliceStable(all, func(i, j int) bool { return first(all[i]) && !first(all[j]) })
	if attempt != 0 {
		return [][]*class{all}
	}
	var ruled []*class
	for _, each := range all {
		if each.ruled {
			ruled = append(ruled, each)
		}
	}
	return [][]*class{ruled, all}
}

// bind takes pods until no more can be taken, and again when those on their way out are gone; those that are left.
func (s *scheduler) bind(stages [][]*class) []Refusal {
	for _, stage := range stages {
		s.bindStage(stage)
	}
	gone := s.board.leave()
	s.bindStage(stages[len(stages)-1])
	var refused []Refusal
	for _, each := range stages[len(stages)-1] {
		for index, pod := range each.pods {
			node := each.nodes[index]
			refused = append(refused, Refusal{nameOf(pod), node, s.ask(pod).refusal(node)})
		}
	}
	for _, each := range gone {
		s.board.add(each, each.Spec.NodeName)
	}
	return refused
}

func (s *scheduler) bindStage(stage []*class) {
	for progress := true; progress; {
		progress = false
		for _, each := range stage {
			progress = s.bindClass(each) || progress
		}
	}
}

// bindClass takes what it can of a class. Its pods are asked for in turn round the nodes, so that spread is filled
// evenly with few questions; the pods are alike, so that one question serves them all until volumes change hands. Pods
// with spreads are asked for one by one: of what it was told of taken pods, PodTopologySpread keeps the least count right
// for two domains only, and which two is by chance where several have it.
func (s *scheduler) bindClass(some *class) bool {
	progress := false
	for len(some.pods) > 0 {
		asked := s.ask(some.pods[0])
		for {
			index := asked.first(some.nodes)
			if index < 0 {
				return progress
			}
			pod, node := some.pods[index], some.nodes[index]
			if s.take(pod, node) != "" {
				return progress
			}
			progress = true
			some.pods = append(slices.Clone(some.pods[index+1:]), some.pods[:index]...)
			some.nodes = append(slices.Clone(some.nodes[index+1:]), some.nodes[:index]...)
			alone := len(pod.Spec.Volumes) > 0 || len(pod.Spec.TopologySpreadConstraints) > 0
			if len(some.pods) == 0 || alone || asked.took(pod, node) != nil {
				break
			}
		}
	}
	return progress
}

// classes groups the waiting pods, the nodes of each in turn of their zones.
func classes(found *cluster) []*class {
	zone := map[string]string{}
	for _, node := range found.nodes {
		zone[node.Name] = node.Labels[zoneLabel]
	}
	byKey, all := map[string]*class{}, []*class{}
	for _, each := range found.waiting {
		key := signature(each.pod)
		if byKey[key] == nil {
			byKey[key] = &class{ruled: hasRules(each.pod)}
			all = append(all, byKey[key])
		}
		byKey[key].pods = append(byKey[key].pods, each.pod)
		byKey[key].nodes = append(byKey[key].nodes, each.node)
	}
	for _, each := range all {
		turn, turns := map[string]int{}, make([]int, len(each.nodes))
		for index, node := range each.nodes {
			turns[index] = turn[zone[node]]
			turn[zone[node]]++
		}
		sort.Stable(byTurn{each, turns})
	}
	return all
}

// level is every waiting pod alone, so that at any time the same part of all pods with the same labels has had its turn
// in each zone.
func level(found *cluster) []*class {
	zone, turn, total := map[string]string{}, map[string]int{}, map[string]int{}
	for _, node := range found.nodes {
		zone[node.Name] = node.Labels[zoneLabel]
	}
	group := func(each placed) string { return fmt.Sprint(each.pod.Namespace, each.pod.Labels, zone[each.node]) }
	for _, each := range found.waiting {
		total[group(each)]++
	}
	all, part := []*class{}, map[*class]float64{}
	for _, each := range found.waiting {
		alone := &class{[]*core.Pod{each.pod}, []string{each.node}, hasRules(each.pod)}
		part[alone] = float64(turn[group(each)]) / float64(total[group(each)])
		turn[group(each)]++
		all = append(all, alone)
	}
	sort.SliceStable(all, func(i, j int) bool { return part[all[i]] < part[all[j]] })
	return all
}

type byTurn struct {
	*class
	turns []int
}

func (b byTurn) Len() int           { return len(b.turns) }
func (b byTurn) Less(i, j int) bool { return b.turns[i] < b.turns[j] }
func (b byTurn) Swap(i, j int) {
	b.turns[i], b.turns[j] = b.turns[j], b.turns[i]
	b.pods[i], b.pods[j] = b.pods[j], b.pods[i]
	b.nodes[i], b.nodes[j] = b.nodes[j], b.nodes[i]
}

func signature(pod *core.Pod) string {
	content, err := json.Marshal([]any{pod.Namespace, pod.Labels, pod.Spec})
	if err != nil {
		panic(err) // a pod that was decoded from JSON can be encoded
	}
	return string(content)
}

func hasRules(pod *core.Pod) bool {
	affinity := pod.Spec.Affinity
	return len(pod.Spec.TopologySpreadConstraints) > 0 ||
		affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil)
}
