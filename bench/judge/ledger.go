package main

import (
	"fmt"
	"math"
	"sort"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// price is the hourly price of a plan by the problem's own offerings, and what is wrong with the nodes that it launches.
func (b *builder) price(plan *Plan) (float64, []string) {
	var total float64
	var wrong []string
	for index, planned := range plan.Nodes {
		name := fmt.Sprintf("planned-%d", index)
		own := Choice{planned.InstanceType, planned.Zone, planned.CapacityType, planned.Price}
		for _, choice := range append([]Choice{own}, planned.Alternatives...) {
			offering := b.offering(choice)
			switch {
			case offering == nil || !offering.Available:
				wrong = append(wrong, fmt.Sprintf("%s: %s is not offered as %s in %s", name, choice.InstanceType, choice.CapacityType, choice.Zone))
				continue
			case math.Abs(offering.Price-choice.Price) > 1e-9:
				wrong = append(wrong, fmt.Sprintf("%s: %s costs %g, not %g", name, choice.InstanceType, offering.Price, choice.Price))
			}
			if reason := b.outsidePool(name, planned, choice); reason != "" {
				wrong = append(wrong, reason)
			}
		}
		if offering := b.offering(own); offering != nil {
			total += offering.Price
		}
	}
	if math.Abs(total-plan.Price) > 1e-6*math.Max(1, total) {
		wrong = append(wrong, fmt.Sprintf("its nodes cost %g, the plan says %g", total, plan.Price))
	}
	return total, append(wrong, b.overLimits(plan)...)
}

func (b *builder) offering(choice Choice) *Offering {
	kind := b.types[choice.InstanceType]
	if kind == nil {
		return nil
	}
	for index := range kind.Offerings {
		offering := &kind.Offerings[index]
		if offering.Zone == choice.Zone && offering.CapacityType == choice.CapacityType {
			return offering
		}
	}
	return nil
}

func (b *builder) outsidePool(name string, planned PlannedNode, choice Choice) string {
	node, err := b.node(name, planned, choice)
	if err != nil {
		return err.Error()
	}
	for _, rule := range b.pools[planned.NodePool].Requirements {
		if !holds(rule, node) {
			return fmt.Sprintf("%s as %s in %s: %s %s %v of pool %s is broken", name, choice.InstanceType, choice.Zone, rule.Key, rule.Operator, rule.Values, planned.NodePool)
		}
	}
	return ""
}

// holds says whether a node's labels meet a pool's requirement, by the matching that pods' node affinity has.
func holds(rule Requirement, node *core.Node) bool {
	selector, err := nodeaffinity.NewNodeSelector(&core.NodeSelector{NodeSelectorTerms: []core.NodeSelectorTerm{
		{MatchExpressions: []core.NodeSelectorRequirement{{Key: rule.Key, Operator: rule.Operator, Values: rule.Values}}},
	}})
	return err == nil && selector.Match(node)
}

func (b *builder) overLimits(plan *Plan) []string {
	var wrong []string
	for _, name := range sortedPools(b.pools) {
		for resourceName, limit := range b.pools[name].Limits {
			standing, added := b.used(name, resourceName), resource.Quantity{}
			for _, planned := range plan.Nodes {
				if kind := b.types[planned.InstanceType]; planned.NodePool == name && kind != nil {
					added.Add(kind.Capacity[resourceName])
				}
			}
			standing.Add(added)
			if !added.IsZero() && standing.Cmp(limit) > 0 {
				wrong = append(wrong, fmt.Sprintf("pool %s: %s of a limit of %s %s", name, standing.String(), limit.String(), resourceName))
			}
		}
	}
	return wrong
}

// used is what the standing nodes of a pool have of a resource.
func (b *builder) used(pool string, name core.ResourceName) resource.Quantity {
	total := resource.Quantity{}
	for _, node := range b.problem.Nodes {
		if node.Labels[poolLabel] == pool {
			total.Add(node.Status.Capacity[name])
		}
	}
	return total
}

func sortedPools(pools map[string]*NodePool) []string {
	var all []string
	for name := range pools {
		all = append(all, name)
	}
	sort.Strings(all)
	return all
}

// miscounted are pending pods that a plan doesn't name exactly once.
func (b *builder) miscounted(plan *Plan) []string {
	times := map[string]int{}
	for _, placement := range plan.Existing {
		count(times, placement.Pods)
	}
	for _, planned := range plan.Nodes {
		count(times, planned.Pods)
	}
	for _, left := range plan.Unplaced {
		count(times, []string{left.Pod})
	}
	var wrong []string
	for _, pod := range b.problem.Pods {
		if pending(pod) && times[nameOf(pod)] != 1 {
			wrong = append(wrong, fmt.Sprintf("%s: the plan names it %d times", nameOf(pod), times[nameOf(pod)]))
		}
	}
	return wrong
}

func pending(pod *core.Pod) bool {
	return pod.Spec.NodeName == "" && pod.Status.Phase != core.PodSucceeded && pod.Status.Phase != core.PodFailed
}

func count(times map[string]int, names []string) {
	for _, name := range names {
		times[name]++
	}
}
