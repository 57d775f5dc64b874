package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	core "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// filters are kube-scheduler's default plugins that can refuse a node; DynamicResources is left out: no problem has claims.
var filters = []string{
	names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeAffinity, names.NodePorts,
	names.NodeResourcesFit, names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone,
	names.PodTopologySpread, names.InterPodAffinity,
}

// scheduler is kube-scheduler's filtering, with its plugins and their default arguments, over nodes that we fill by hand.
type scheduler struct {
	framework framework.Framework
	board     *board
	ctx       context.Context
}

// newScheduler has the nodes of a cluster with the pods that run already.
func newScheduler(ctx context.Context, problem *Problem, found *cluster) (*scheduler, error) {
	metrics.Register()
	defaults, err := latest.Default()
	if err != nil {
		return nil, err
	}
	profile := defaults.Profiles[0]
	profile.Plugins = &config.Plugins{
		QueueSort: config.PluginSet{Enabled: []config.Plugin{{Name: names.PrioritySort}}},
		Bind:      config.PluginSet{Enabled: []config.Plugin{{Name: names.DefaultBinder}}},
	}
	for _, name := range filters {
		profile.Plugins.MultiPoint.Enabled = append(profile.Plugins.MultiPoint.Enabled, config.Plugin{Name: name, Weight: 1})
	}
	client := fake.NewClientset(stored(problem, found)...)
	factory := informers.NewSharedInformerFactory(client, 0)
	filled := newBoard(found)
	made, err := frameworkruntime.NewFramework(
		ctx, plugins.NewInTreeRegistry(), &profile,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(filled), frameworkruntime.WithLogger(logr.Discard()),
		frameworkruntime.WithParallelism(2),
	)
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, fmt.Errorf("the informer of %v did not start", kind)
		}
	}
	return &scheduler{made, filled, ctx}, nil
}

// question is one pod's: what the pre-filter plugins found for it, kept in step with the pods taken since.
type question struct {
	*scheduler
	pod      *core.Pod
	state    fwk.CycleState
	narrowed *framework.PreFilterResult
	status   *fwk.Status
}

// ask runs the pre-filter plugins for the pod. The answers hold until the board changes otherwise than by `took`.
func (s *scheduler) ask(pod *core.Pod) *question {
	state := framework.NewCycleState()
	narrowed, status, _ := s.framework.RunPreFilterPlugins(s.ctx, state, pod)
	return &question{s, pod, state, narrowed, status}
}

// refusal says which plugin keeps the pod off a node, and why; empty when kube-scheduler would take it.
func (q *question) refusal(node string) string {
	if !q.status.IsSuccess() {
		return said(q.status)
	}
	if !q.narrowed.AllNodes() && !q.narrowed.NodeNames.Has(node) {
		return "the pre-filter plugins leave this node out"
	}
	info := q.board.infos[node]
	if info == nil {
		return "there is no such node"
	}
	if status := q.framework.RunFilterPlugins(q.ctx, q.state, q.pod, info); !status.IsSuccess() {
		return said(status)
	}
	return ""
}

// first is the index of the first node that takes the pod; -1: none does.
func (q *question) first(nodes []string) int {
	return slices.IndexFunc(nodes, func(node string) bool { return q.refusal(node) == "" })
}

// took tells the plugins of a pod that the scheduler has just taken, as kube-scheduler tells them of nominated pods.
func (q *question) took(pod *core.Pod, node string) error {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return err
	}
	return q.framework.RunPreFilterExtensionAddPod(q.ctx, q.state, q.pod, info, q.board.infos[node]).AsError()
}

// take binds the pod; its unbound claims take the volumes that kube-scheduler would reserve for them there.
func (s *scheduler) take(pod *core.Pod, node string) string {
	if len(pod.Spec.Volumes) > 0 {
		asked := s.ask(pod)
		if reason := asked.refusal(node); reason != "" {
			return reason
		}
		if status := s.framework.RunReservePluginsReserve(s.ctx, asked.state, pod, node); !status.IsSuccess() {
			return said(status)
		}
	}
	s.board.add(pod, node)
	return ""
}

func said(status *fwk.Status) string { return fmt.Sprintf("%s: %v", status.Plugin(), status.AsError()) }
