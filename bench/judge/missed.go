package main

import (
	"fmt"
	"slices"

	core "k8s.io/api/core/v1"
	helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
)

// Missed is a pod that the plan leaves pending although kube-scheduler would take it: on a node of the planned
// cluster, or on one more node that its pools may launch.
type Missed struct {
	Pod   string `json:"pod"`
	Where string `json:"where"`
	Said  string `json:"said"`
}

// missed asks for one pod of each class that is left; the planned cluster stands as it was bound.
func (b *builder) missed(plan *Plan, stands *scheduler) ([]Missed, error) {
	var all []Missed
	seen := map[string]bool{}
	for _, left := range plan.Unplaced {
		pod, known := b.pods[left.Pod]
		if !known {
			return nil, fmt.Errorf("the plan leaves %s: the problem has no such pod", left.Pod)
		}
		if key := signature(pod); seen[key] {
			continue
		} else {
			seen[key] = true
		}
		if len(pod.Spec.SchedulingGates) > 0 {
			continue
		}
		where, err := b.room(plan, pod, stands)
		if err != nil {
			return nil, err
		}
		if where != "" {
			all = append(all, Missed{left.Pod, where, left.Reason})
		}
	}
	return all, nil
}

func (b *builder) room(plan *Plan, pod *core.Pod, stands *scheduler) (string, error) {
	var names []string
	for name := range stands.board.infos {
		names = append(names, name)
	}
	slices.Sort(names)
	if found := stands.ask(pod).first(names); found >= 0 {
		return names[found], nil
	}
	for _, pool := range sortedPools(b.pools) {
		if where, err := b.roomOfPool(plan, b.pools[pool], pod, stands); where != "" || err != nil {
			return where, err
		}
	}
	return "", nil
}

// roomOfPool tries one more node of the pool: of each zone, capacity type and architecture the first type that has
// the resources.
func (b *builder) roomOfPool(plan *Plan, pool *NodePool, pod *core.Pod, stands *scheduler) (string, error) {
	tried := map[string]bool{}
	for index := range b.problem.InstanceTypes {
		kind := &b.problem.InstanceTypes[index]
		if len(b.overLimits(&Plan{Nodes: append(slices.Clone(plan.Nodes), PlannedNode{NodePool: pool.Name, InstanceType: kind.Name})})) > 0 {
			continue
		}
		for _, offering := range kind.Offerings {
			planned := PlannedNode{NodePool: pool.Name, Labels: openLabels(pool, kind, pod)}
			choice := Choice{kind.Name, offering.Zone, offering.CapacityType, offering.Price}
			if !offering.Available || b.outsidePool(freshName(kind.Name), planned, choice) != "" {
				continue
			}
			node, err := b.node(freshName(kind.Name), planned, choice)
			if err != nil {
				return "", err
			}
			daemons := b.daemonPods(node, nil)
			place := fmt.Sprint(offering.Zone, offering.CapacityType, node.Labels[core.LabelArchStable])
			if tried[place] || !fits(pod, node, daemons) {
				continue
			}
			tried[place] = true
			if stands.takesWith(pod, node, daemons) {
				return fmt.Sprintf("a new %s in %s, %s, of pool %s", kind.Name, offering.Zone, offering.CapacityType, pool.Name), nil
			}
		}
	}
	return "", nil
}

// freshName is that of one more node; its CSINode is known by it.
func freshName(instanceType string) string {
	return "fresh-" + instanceType
}

// openLabels are the values that a pod asks for where its pool leaves a label open.
func openLabels(pool *NodePool, kind *InstanceType, pod *core.Pod) map[string]string {
	found := map[string]string{}
	for _, rule := range pool.Requirements {
		asked, asks := pod.Spec.NodeSelector[rule.Key]
		switch {
		case rule.Operator == core.NodeSelectorOpExists && asks:
			found[rule.Key] = asked
		case rule.Operator == core.NodeSelectorOpIn && asks && slices.Contains(rule.Values, asked):
			found[rule.Key] = asked
		case rule.Operator == core.NodeSelectorOpIn && len(rule.Values) > 0:
			found[rule.Key] = rule.Values[0]
		}
	}
	for _, rule := range kind.Requirements {
		delete(found, rule.Key)
	}
	return found
}

// fits says whether an empty node with its daemons has the resources, by kube-scheduler's own sum, and whether the
// pod may go there as far as the node's labels and taints say.
func fits(pod *core.Pod, node *core.Node, daemons []*core.Pod) bool {
	info := framework.NewNodeInfo(daemons...)
	info.SetNode(node)
	if len(noderesources.Fits(pod, info, noderesources.ResourceRequestsOptions{EnablePodLevelResources: true})) > 0 {
		return false
	}
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	_, tainted := helper.FindMatchingUntoleratedTaint(node.Spec.Taints, pod.Spec.Tolerations, func(taint *core.Taint) bool {
		return taint.Effect != core.TaintEffectPreferNoSchedule
	})
	return err == nil && matches && !tainted
}

// takesWith asks kube-scheduler with one more node in the cluster, for the length of the question.
func (s *scheduler) takesWith(pod *core.Pod, node *core.Node, daemons []*core.Pod) bool {
	info := framework.NewNodeInfo(daemons...)
	info.SetNode(node)
	before := s.board.all
	s.board.infos[node.Name] = info
	s.board.all = append(slices.Clone(before), info)
	defer func() {
		delete(s.board.infos, node.Name)
		s.board.all = before
	}()
	return s.ask(pod).first([]string{node.Name}) == 0
}
