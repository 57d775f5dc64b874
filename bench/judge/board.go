package main

import (
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	core "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// board is the snapshot that kube-scheduler's plugins read; pods come and go without building it again.
type board struct {
	infos    map[string]*framework.NodeInfo
	all      []fwk.NodeInfo
	affinity map[string]fwk.NodeInfo
	anti     map[string]fwk.NodeInfo
	claims   map[string]int
}

func newBoard(found *cluster) *board {
	made := &board{
		infos:    map[string]*framework.NodeInfo{},
		affinity: map[string]fwk.NodeInfo{},
		anti:     map[string]fwk.NodeInfo{},
		claims:   map[string]int{},
	}
	for _, node := range found.nodes {
		info := framework.NewNodeInfo()
		info.SetNode(node)
		made.infos[node.Name] = info
		made.all = append(made.all, info)
	}
	for _, pod := range found.running {
		made.add(pod, pod.Spec.NodeName)
	}
	return made
}

// add puts a pod on a node; one of an unknown node runs nowhere that anybody counts.
func (b *board) add(pod *core.Pod, node string) {
	info := b.infos[node]
	if info == nil {
		return
	}
	bound := pod.DeepCopy()
	bound.Spec.NodeName = node
	info.AddPod(bound)
	b.note(info, bound)
}

// leave takes away the pods that are on their way out, and returns them: until they are gone, they keep others from a
// host or a zone, and pods that must stand beside their like from any other place.
func (b *board) leave() []*core.Pod {
	var gone []*core.Pod
	for _, info := range b.infos {
		for _, each := range slices.Clone(info.Pods) {
			if pod := each.GetPod(); pod.DeletionTimestamp != nil && info.RemovePod(logr.Discard(), pod) == nil {
				gone = append(gone, pod)
			}
		}
		keep(b.affinity, info.Node().Name, info, len(info.PodsWithAffinity) > 0)
		keep(b.anti, info.Node().Name, info, len(info.PodsWithRequiredAntiAffinity) > 0)
	}
	return gone
}

func (b *board) note(info *framework.NodeInfo, pod *core.Pod) {
	name := info.Node().Name
	keep(b.affinity, name, info, len(info.PodsWithAffinity) > 0)
	keep(b.anti, name, info, len(info.PodsWithRequiredAntiAffinity) > 0)
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			b.claims[framework.GetNamespacedName(pod.Namespace, volume.PersistentVolumeClaim.ClaimName)]++
		}
	}
}

func keep(in map[string]fwk.NodeInfo, name string, info fwk.NodeInfo, wanted bool) {
	if wanted {
		in[name] = info
	} else {
		delete(in, name)
	}
}

// NodeInfos implements SharedLister.
func (b *board) NodeInfos() framework.NodeInfoLister { return b }

// StorageInfos implements SharedLister.
func (b *board) StorageInfos() framework.StorageInfoLister { return b }

// List implements NodeInfoLister.
func (b *board) List() ([]fwk.NodeInfo, error) { return b.all, nil }

// HavePodsWithAffinityList implements NodeInfoLister.
func (b *board) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) { return listed(b.affinity), nil }

// HavePodsWithRequiredAntiAffinityList implements NodeInfoLister.
func (b *board) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return listed(b.anti), nil
}

func listed(some map[string]fwk.NodeInfo) []fwk.NodeInfo {
	found := make([]fwk.NodeInfo, 0, len(some))
	for _, info := range some {
		found = append(found, info)
	}
	return found
}

// Get implements NodeInfoLister.
func (b *board) Get(name string) (fwk.NodeInfo, error) {
	if info, known := b.infos[name]; known {
		return info, nil
	}
	return nil, fmt.Errorf("no node %q", name)
}

// IsPVCUsedByPods implements StorageInfoLister.
func (b *board) IsPVCUsedByPods(key string) bool { return b.claims[key] > 0 }
