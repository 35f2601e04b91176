package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	requirements "sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/test"
)

// errorsShown is how many of Karpenter's own reasons go to stderr.
const errorsShown = 3

type solveOptions struct {
	ignorePreferences bool
	placements        bool
}

// report is the line on stdout. PricePerHour has dollars with six decimals and counts the new nodes only. SolveCPU is
// the processor time of all threads, the garbage collector's too; on a busy machine it moves less than SolveNanos.
type report struct {
	Workload     string      `json:"workload"`
	Pods         int         `json:"pods"`
	Scheduled    int         `json:"scheduled"`
	Errors       int         `json:"errors"`
	NewNodes     int         `json:"newNodes"`
	SolveNanos   int64       `json:"solveNanos"`
	SolveCPU     int64       `json:"solveCpuNanos"`
	PricePerHour string      `json:"pricePerHour"`
	MaxRSSBytes  int64       `json:"maxRssBytes"`
	Placements   []placement `json:"placements,omitempty"`
}

// placement is an existing node, or a new one as the cheapest offering of its claim would make it.
type placement struct {
	Node         string   `json:"node,omitempty"`
	NodePool     string   `json:"nodePool,omitempty"`
	InstanceType string   `json:"instanceType,omitempty"`
	Zone         string   `json:"zone,omitempty"`
	CapacityType string   `json:"capacityType,omitempty"`
	PricePerHour string   `json:"pricePerHour,omitempty"`
	Pods         []string `json:"pods"`
}

// solve times Karpenter's Solve, and nothing else, on the folder's workload.
func solve(folder string, chosen solveOptions) (report, error) {
	objects, types, err := readWorkload(folder)
	if err != nil {
		return report{}, err
	}
	ctx := options.ToContext(injection.WithControllerName(context.Background(), "provisioner"), test.Options())
	scheduler, err := newScheduler(ctx, objects, types, chosen)
	if err != nil {
		return report{}, err
	}
	runtime.GC() // As Go's benchmarks do before they start the clock.
	before, start := used(), time.Now()
	results, err := scheduler.Solve(ctx, objects.pending)
	elapsed, after := time.Since(start), used()
	if err != nil {
		return report{}, fmt.Errorf("solving, %w", err)
	}
	showErrors(results)
	answer := report{
		Workload: filepath.Base(filepath.Clean(folder)), Pods: len(objects.pending), Errors: len(results.PodErrors),
		NewNodes: len(results.NewNodeClaims), SolveNanos: elapsed.Nanoseconds(), SolveCPU: processor(after) - processor(before),
		MaxRSSBytes: after.Maxrss * 1024, // Linux counts it in KiB.
	}
	return answer, answer.account(results, chosen.placements)
}

// account counts pods and dollars.
func (r *report) account(results scheduling.Results, placements bool) error {
	var places []placement
	for _, node := range results.ExistingNodes {
		if len(node.Pods) > 0 {
			places = append(places, placement{Node: node.Name(), Pods: names(node.Pods)})
		}
	}
	var total int64
	for _, claim := range results.NewNodeClaims {
		it, bought := cheapest(claim)
		if bought == nil {
			return fmt.Errorf("a claim of pool %s has no offering that fits it", claim.NodePoolName)
		}
		total += micros(bought.Price)
		places = append(places, placement{
			NodePool: claim.NodePoolName, InstanceType: it.Name, Zone: bought.Zone(),
			CapacityType: bought.CapacityType(), PricePerHour: dollars(micros(bought.Price)), Pods: names(claim.Pods),
		})
	}
	for _, place := range places {
		r.Scheduled += len(place.Pods)
	}
	r.PricePerHour = dollars(total)
	if placements {
		r.Placements = places
	}
	return nil
}

// cheapest is the offering that a launch would pick first; equal prices go by name. Only a claim that is bound to
// reservations holds one: others see the offering too, but its capacity is someone else's.
func cheapest(claim *scheduling.NodeClaim) (it *cloudprovider.InstanceType, bought *cloudprovider.Offering) {
	reserved := !claim.Requirements.Get(v1.CapacityTypeLabelKey).Has(v1.CapacityTypeOnDemand)
	for _, candidate := range claim.InstanceTypeOptions {
		for _, o := range candidate.Offerings.Available() {
			if o.CapacityType() == v1.CapacityTypeReserved && !reserved {
				continue
			}
			fits := claim.Requirements.IsCompatible(o.Requirements, requirements.AllowUndefinedWellKnownLabels)
			if fits && (bought == nil || o.Price < bought.Price || o.Price == bought.Price && candidate.Name < it.Name) {
				it, bought = candidate, o
			}
		}
	}
	return it, bought
}

func names(pods []*corev1.Pod) []string {
	var found []string
	for _, p := range pods {
		found = append(found, p.Namespace+"/"+p.Name)
	}
	return found
}

func micros(price float64) int64 { return int64(math.Round(price * 1e6)) }

func dollars(micros int64) string { return fmt.Sprintf("%d.%06d", micros/1e6, micros%1e6) }

func showErrors(results scheduling.Results) {
	shown := 0
	for p, err := range results.PodErrors {
		if shown++; shown > errorsShown {
			return
		}
		fmt.Fprintf(os.Stderr, "karpenter-peer: %s/%s: %v\n", p.Namespace, p.Name, err)
	}
}

// used is what this process has used so far; for one's own process the call cannot fail.
func used() (usage syscall.Rusage) {
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return usage
}

func processor(usage syscall.Rusage) int64 { return usage.Utime.Nano() + usage.Stime.Nano() }

// typesOf gives every pool the whole catalogue, as a provider with one class does.
func typesOf(pools []*v1.NodePool, types []*cloudprovider.InstanceType) map[string][]*cloudprovider.InstanceType {
	byPool := map[string][]*cloudprovider.InstanceType{}
	for _, pool := range pools {
		byPool[pool.Name] = types
	}
	return byPool
}
