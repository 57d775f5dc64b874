package main

import (
	"fmt"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/controller/daemon"
)

const (
	hostnameLabel     = core.LabelHostname
	zoneLabel         = core.LabelTopologyZone
	instanceTypeLabel = core.LabelInstanceTypeStable
	capacityTypeLabel = "karpenter.sh/capacity-type"
	poolLabel         = "karpenter.sh/nodepool"
)

// placed is a pod with the name of the node that the plan gives it.
type placed struct {
	pod  *core.Pod
	node string
}

// cluster is the planned cluster: every node, the pods that run already, and those that the plan places.
type cluster struct {
	nodes   []*core.Node
	running []*core.Pod
	waiting []placed
}

// builder makes nodes and pods of a problem as a kubelet, the API server and the DaemonSet controller would.
type builder struct {
	problem *Problem
	types   map[string]*InstanceType
	pools   map[string]*NodePool
	pods    map[string]*core.Pod
}

func newBuilder(problem *Problem) (*builder, error) {
	made := &builder{problem, map[string]*InstanceType{}, map[string]*NodePool{}, map[string]*core.Pod{}}
	for index := range problem.InstanceTypes {
		made.types[problem.InstanceTypes[index].Name] = &problem.InstanceTypes[index]
	}
	for index := range problem.NodePools {
		made.pools[problem.NodePools[index].Name] = &problem.NodePools[index]
	}
	for _, pod := range problem.Pods {
		stored, err := admitted(pod)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", nameOf(pod), err)
		}
		made.pods[nameOf(pod)] = stored
	}
	return made, nil
}

// cluster is the world in which each planned node came up as the offering that `choose` names.
func (b *builder) cluster(plan *Plan, choose func(int, PlannedNode) Choice) (*cluster, error) {
	found := &cluster{}
	for _, node := range b.problem.Nodes {
		found.nodes = append(found.nodes, node)
	}
	for _, pod := range b.problem.Pods {
		if pod.Spec.NodeName != "" && pod.Status.Phase != core.PodSucceeded && pod.Status.Phase != core.PodFailed {
			found.running = append(found.running, b.pods[nameOf(pod)])
		}
	}
	for _, node := range b.problem.Nodes {
		found.running = append(found.running, b.daemonPods(node, found.running)...)
	}
	for _, placement := range plan.Existing {
		if err := b.wait(found, placement.Node, placement.Pods); err != nil {
			return nil, err
		}
	}
	for index, planned := range plan.Nodes {
		node, err := b.node(fmt.Sprintf("planned-%d", index), planned, choose(index, planned))
		if err != nil {
			return nil, err
		}
		found.nodes = append(found.nodes, node)
		found.running = append(found.running, b.daemonPods(node, nil)...)
		if err := b.wait(found, node.Name, planned.Pods); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (b *builder) wait(found *cluster, node string, names []string) error {
	for _, name := range names {
		pod, known := b.pods[name]
		if !known {
			return fmt.Errorf("the plan places %s on %s: the problem has no such pod", name, node)
		}
		found.waiting = append(found.waiting, placed{pod, node})
	}
	return nil
}

// node is a planned node once it is initialized: startup taints are gone.
func (b *builder) node(name string, planned PlannedNode, choice Choice) (*core.Node, error) {
	kind, pool := b.types[choice.InstanceType], b.pools[planned.NodePool]
	if kind == nil || pool == nil {
		return nil, fmt.Errorf("%s: no instance type %q or no node pool %q", name, choice.InstanceType, planned.NodePool)
	}
	labels := map[string]string{}
	for _, rules := range [][]Requirement{pool.Requirements, kind.Requirements} {
		for _, rule := range rules {
			if rule.Operator == core.NodeSelectorOpIn && len(rule.Values) == 1 {
				labels[rule.Key] = rule.Values[0]
			}
		}
	}
	for _, more := range []map[string]string{planned.Labels, pool.Labels} {
		for key, value := range more {
			labels[key] = value
		}
	}
	labels[hostnameLabel], labels[poolLabel] = name, planned.NodePool
	labels[zoneLabel], labels[capacityTypeLabel] = choice.Zone, choice.CapacityType
	labels[instanceTypeLabel] = kind.Name
	return &core.Node{
		ObjectMeta: meta.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels},
		Spec:       core.NodeSpec{Taints: pool.Taints},
		Status:     core.NodeStatus{Capacity: kind.Capacity, Allocatable: kind.allocatable()},
	}, nil
}

func (t *InstanceType) allocatable() core.ResourceList {
	left := t.Capacity.DeepCopy()
	for _, part := range t.Overhead {
		for name, amount := range part {
			have := left[name]
			have.Sub(amount)
			if have.Sign() < 0 {
				have.Set(0)
			}
			left[name] = have
		}
	}
	return left
}

// daemonPods are the pods that the DaemonSet controller makes for a node, less those that run there already.
func (b *builder) daemonPods(node *core.Node, running []*core.Pod) []*core.Pod {
	var made []*core.Pod
	for _, set := range b.problem.DaemonSets {
		if should, _ := daemon.NodeShouldRunDaemonPod(node, set); !should || runsOn(set.Name, node.Name, running) {
			continue
		}
		pod := daemon.NewPod(set.DeepCopy(), node.Name)
		pod.Name = set.Name + "-" + node.Name
		pod.UID = types.UID(pod.Name)
		made = append(made, pod)
	}
	return made
}

func runsOn(set, node string, running []*core.Pod) bool {
	for _, pod := range running {
		owner := meta.GetControllerOf(pod)
		if pod.Spec.NodeName == node && owner != nil && owner.Kind == "DaemonSet" && owner.Name == set {
			return true
		}
	}
	return false
}

func nameOf(pod *core.Pod) string { return pod.Namespace + "/" + pod.Name }
