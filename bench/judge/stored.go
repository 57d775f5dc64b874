package main

import (
	"maps"
	"math"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// stored are the objects that the plugins read from the API server.
func stored(problem *Problem, found *cluster) []runtime.Object {
	var all []runtime.Object
	for _, each := range spaces(problem) {
		all = append(all, each)
	}
	for _, each := range problem.Classes {
		all = append(all, each)
	}
	for _, each := range csiNodes(problem, found) {
		all = append(all, each)
	}
	for _, each := range found.nodes {
		all = append(all, each)
	}
	for _, each := range problem.Volumes {
		own := each.DeepCopy()
		own.ResourceVersion = "1" // volume binding compares them
		all = append(all, own)
	}
	for _, each := range problem.Claims {
		own := each.DeepCopy()
		own.ResourceVersion = "1"
		all = append(all, own)
	}
	return all
}

// spaces are the problem's namespaces, and those that its pods name.
func spaces(problem *Problem) []*core.Namespace {
	all, known := problem.Namespaces, map[string]bool{}
	for _, each := range all {
		known[each.Name] = true
	}
	for _, pod := range problem.Pods {
		if !known[pod.Namespace] {
			labels := map[string]string{core.LabelMetadataName: pod.Namespace}
			all = append(all, &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: pod.Namespace, Labels: labels}})
			known[pod.Namespace] = true
		}
	}
	return all
}

// csiNodes are the problem's; a planned node, or one more, attaches, of each driver, what the standing one of its instance type with
// the fewest does: nobody knows which of them it will be like.
func csiNodes(problem *Problem, found *cluster) []*storage.CSINode {
	all, ofType := problem.CSINodes, map[string]map[string]storage.CSINodeDriver{}
	for _, node := range problem.Nodes {
		for _, each := range problem.CSINodes {
			if each.Name == node.Name {
				kind := node.Labels[instanceTypeLabel]
				ofType[kind] = fewest(ofType[kind], each.Spec.Drivers)
			}
		}
	}
	add := func(name, kind string) {
		if drivers := ofType[kind]; drivers != nil {
			spec := storage.CSINodeSpec{Drivers: slices.SortedFunc(maps.Values(drivers), byName)}
			all = append(all, &storage.CSINode{ObjectMeta: meta.ObjectMeta{Name: name}, Spec: spec})
		}
	}
	for _, node := range found.nodes[len(problem.Nodes):] {
		add(node.Name, node.Labels[instanceTypeLabel])
	}
	for kind := range ofType {
		add(freshName(kind), kind)
	}
	return all
}

// fewest keeps of each driver the one that attaches fewest volumes.
func fewest(kept map[string]storage.CSINodeDriver, more []storage.CSINodeDriver) map[string]storage.CSINodeDriver {
	if kept == nil {
		kept = map[string]storage.CSINodeDriver{}
	}
	for _, each := range more {
		if old, known := kept[each.Name]; !known || attaches(each) < attaches(old) {
			kept[each.Name] = each
		}
	}
	return kept
}

func attaches(driver storage.CSINodeDriver) int32 {
	if driver.Allocatable == nil || driver.Allocatable.Count == nil {
		return math.MaxInt32
	}
	return *driver.Allocatable.Count
}

func byName(one, other storage.CSINodeDriver) int {
	return strings.Compare(one.Name, other.Name)
}
