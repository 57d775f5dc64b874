package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
)

// Problem is a problem file: Kubernetes objects, instance types and node pools.
type Problem struct {
	InstanceTypes []InstanceType                `json:"instanceTypes"`
	NodePools     []NodePool                    `json:"nodePools"`
	Nodes         []*core.Node                  `json:"nodes"`
	Pods          []*core.Pod                   `json:"pods"`
	DaemonSets    []*apps.DaemonSet             `json:"daemonSets"`
	Namespaces    []*core.Namespace             `json:"namespaces"`
	Volumes       []*core.PersistentVolume      `json:"persistentVolumes"`
	Claims        []*core.PersistentVolumeClaim `json:"persistentVolumeClaims"`
	Classes       []*storage.StorageClass       `json:"storageClasses"`
	CSINodes      []*storage.CSINode            `json:"csiNodes"`
}

// InstanceType is what a node can be launched as; allocatable is its capacity less the three overheads.
type InstanceType struct {
	Name         string                       `json:"name"`
	Capacity     core.ResourceList            `json:"capacity"`
	Overhead     map[string]core.ResourceList `json:"overhead"`
	Requirements []Requirement                `json:"requirements"`
	Offerings    []Offering                   `json:"offerings"`
}

// Offering is one zone and capacity type of an instance type; Price in $ an hour.
type Offering struct {
	Zone         string  `json:"zone"`
	CapacityType string  `json:"capacityType"`
	Price        float64 `json:"price"`
	Available    bool    `json:"available"`
}

// NodePool is a Provisioner under its later name.
type NodePool struct {
	Name         string            `json:"name"`
	Requirements []Requirement     `json:"requirements"`
	Labels       map[string]string `json:"labels"`
	Taints       []core.Taint      `json:"taints"`
	Limits       core.ResourceList `json:"limits"`
}

// Requirement is a rule on one label.
type Requirement struct {
	Key      string                    `json:"key"`
	Operator core.NodeSelectorOperator `json:"operator"`
	Values   []string                  `json:"values"`
}

// Plan is what `python -m bench solve FILE --output json` prints.
type Plan struct {
	Nodes    []PlannedNode `json:"nodes"`
	Existing []Placement   `json:"existing"`
	Unplaced []Unplaced    `json:"unplaced"`
	Price    float64       `json:"price"`
}

// PlannedNode is one node to launch, and the pods (namespace/name) it is for.
type PlannedNode struct {
	NodePool     string            `json:"nodePool"`
	InstanceType string            `json:"instanceType"`
	Zone         string            `json:"zone"`
	CapacityType string            `json:"capacityType"`
	Alternatives []Choice          `json:"alternatives"`
	Price        float64           `json:"price"`
	Labels       map[string]string `json:"labels"`
	Pods         []string          `json:"pods"`
}

// Choice is an offering by name.
type Choice struct {
	InstanceType string  `json:"instanceType"`
	Zone         string  `json:"zone"`
	CapacityType string  `json:"capacityType"`
	Price        float64 `json:"price"`
}

// Placement is pods (namespace/name) on a node that stands already.
type Placement struct {
	Node string   `json:"node"`
	Pods []string `json:"pods"`
}

// Unplaced is a pod (namespace/name) that the plan leaves pending.
type Unplaced struct {
	Pod    string `json:"pod"`
	Reason string `json:"reason"`
}

func readProblem(path string) (*Problem, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var found Problem
	if err := json.NewDecoder(content).Decode(&found); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &found, nil
}

func readPlan(path string) (*Plan, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var found Plan
	if err := json.Unmarshal(content, &found); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &found, nil
}
