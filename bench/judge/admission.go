package main

import (
	"context"

	core "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	internal "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	registry "k8s.io/kubernetes/pkg/registry/core/pod"
)

// admitted is the pod as the API server would store it: defaults set, matchLabelKeys merged into the selectors.
func admitted(pod *core.Pod) (*core.Pod, error) {
	pod = pod.DeepCopy()
	legacyscheme.Scheme.Default(pod)
	status, node := pod.Status, pod.Spec.NodeName
	var own internal.Pod
	if err := legacyscheme.Scheme.Convert(pod, &own, nil); err != nil {
		return nil, err
	}
	registry.Strategy.PrepareForCreate(context.Background(), &own)
	var stored core.Pod
	if err := legacyscheme.Scheme.Convert(&own, &stored, nil); err != nil {
		return nil, err
	}
	stored.Status, stored.Spec.NodeName = status, node
	return &stored, nil
}
