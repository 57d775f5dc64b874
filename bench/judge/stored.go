package main

import (
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

// csiNodes are the problem's; a planned node has the drivers of a standing one of its instance type.
func csiNodes(problem *Problem, found *cluster) []*storage.CSINode {
	all, ofType := problem.CSINodes, map[string]*storage.CSINode{}
	for _, node := range problem.Nodes {
		for _, each := range problem.CSINodes {
			if each.Name == node.Name {
				ofType[node.Labels[instanceTypeLabel]] = each
			}
		}
	}
	for _, node := range found.nodes[len(problem.Nodes):] {
		if like := ofType[node.Labels[instanceTypeLabel]]; like != nil {
			all = append(all, &storage.CSINode{ObjectMeta: meta.ObjectMeta{Name: node.Name}, Spec: like.Spec})
		}
	}
	return all
}
