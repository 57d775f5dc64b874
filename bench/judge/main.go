// Command judge says what kube-scheduler makes of a plan: judge PROBLEM.json.gz PLAN.json prints a verdict as JSON.
//
// The filters are kube-scheduler's own, linked in, with their default arguments; pods are defaulted by the API
// server's own code and daemon pods made by the DaemonSet controller's. Nothing here is shared with the solver.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
)

// Verdict is what `judge` prints. A plan holds when all lists are empty.
type Verdict struct {
	// Refused pods: kube-scheduler would not bind them where the plan puts them, in any order tried.
	Refused []Refusal `json:"refused"`
	// Elsewhere is the same with other offerings of each node than the plan's: what the fleet may give instead.
	Elsewhere []Refusal `json:"elsewhere"`
	// Missed pods were left pending, and need not have been.
	Missed []Missed `json:"missed"`
	// Wrong is what does not add up: prices, offerings, pools' requirements and limits, pods named twice or never.
	Wrong []string `json:"wrong"`
	// Placed and Unplaced count pods; Nodes the new ones.
	Placed   int     `json:"placed"`
	Unplaced int     `json:"unplaced"`
	Nodes    int     `json:"nodes"`
	Price    float64 `json:"price"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: judge PROBLEM.json.gz PLAN.json")
		os.Exit(2)
	}
	verdict, err := judge(context.Background(), os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(verdict); err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(1)
	}
}

func judge(ctx context.Context, problemPath, planPath string) (*Verdict, error) {
	problem, err := readProblem(problemPath)
	if err != nil {
		return nil, err
	}
	plan, err := readPlan(planPath)
	if err != nil {
		return nil, err
	}
	builder, err := newBuilder(problem)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	verdict := &Verdict{Nodes: len(plan.Nodes), Unplaced: len(plan.Unplaced)}
	verdict.Price, verdict.Wrong = builder.price(plan)
	verdict.Wrong = append(verdict.Wrong, builder.miscounted(plan)...)
	if err := verdict.bound(ctx, builder, plan); err != nil {
		return nil, err
	}
	for _, choose := range others(plan) {
		found, err := builder.cluster(plan, choose)
		if err != nil {
			return nil, err
		}
		_, refused, err := bindable(ctx, problem, found)
		if err != nil {
			return nil, err
		}
		verdict.Elsewhere = append(verdict.Elsewhere, refused...)
	}
	return verdict, nil
}

func (v *Verdict) bound(ctx context.Context, builder *builder, plan *Plan) error {
	found, err := builder.cluster(plan, planned)
	if err != nil {
		return err
	}
	stands, refused, err := bindable(ctx, builder.problem, found)
	if err != nil {
		return err
	}
	v.Placed, v.Refused = len(found.waiting)-len(refused), refused
	v.Missed, err = builder.missed(plan, stands)
	return err
}

// others choose another offering for each node that has any.
func others(plan *Plan) []func(int, PlannedNode) Choice {
	for _, node := range plan.Nodes {
		if len(node.Alternatives) > 0 {
			return []func(int, PlannedNode) Choice{last, chance}
		}
	}
	return nil
}

func planned(_ int, node PlannedNode) Choice {
	return Choice{node.InstanceType, node.Zone, node.CapacityType, node.Price}
}

func last(index int, node PlannedNode) Choice {
	if len(node.Alternatives) == 0 {
		return planned(index, node)
	}
	return node.Alternatives[len(node.Alternatives)-1]
}

func chance(index int, node PlannedNode) Choice {
	if len(node.Alternatives) == 0 {
		return planned(index, node)
	}
	hash := fnv.New32a()
	fmt.Fprint(hash, index, node.Pods)
	return node.Alternatives[int(hash.Sum32()%uint32(len(node.Alternatives)))]
}
