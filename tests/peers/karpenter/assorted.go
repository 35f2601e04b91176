package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// assortedTypes are 700 made-up types that differ as EC2's do: five ratios of memory to CPU, two architectures, five
// generations of which a newer one costs less, fourteen sizes, and a spot market of its own in every zone.
func assortedTypes() []entry {
	ratios := []family{{"c", 2}, {"m", 4}, {"r", 8}, {"x", 16}, {"z", 12}}
	sizes := []int{1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 112, 128, 192}
	var types []entry
	for _, f := range ratios {
		for _, architecture := range []string{"amd64", "arm64"} {
			for generation := 4; generation < 9; generation++ {
				for _, cpu := range sizes {
					types = append(types, f.entry(architecture, generation, cpu))
				}
			}
		}
	}
	return types
}

// family has so many GiB of memory for each CPU.
type family struct {
	letter string
	ratio  int
}

func (f family) entry(architecture string, generation, cpu int) entry {
	name := fmt.Sprintf("%s%d%s", f.letter, generation, map[string]string{"amd64": "i", "arm64": "g"}[architecture])
	e := entry{
		Name: fmt.Sprintf("%s.%dcpu", name, cpu),
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewQuantity(int64(cpu), resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(int64(cpu*f.ratio)<<30, resource.BinarySI),
			corev1.ResourcePods:   *resource.NewQuantity(int64(min(10+cpu*20, 250)), resource.DecimalSI),
		},
		Overhead: requests(60+5*cpu, 400+20*cpu),
		Labels: map[string]values{
			corev1.LabelArchStable:              {architecture},
			corev1.LabelOSStable:                {"linux"},
			"karpenter.k8s.aws/instance-family": {name},
			"karpenter.k8s.aws/instance-cpu":    {fmt.Sprint(cpu)},
		},
	}
	price := f.microDollars(architecture, generation, cpu)
	available := true
	for i, zone := range []string{"test-zone-1", "test-zone-2", "test-zone-3"} {
		percent := 25 + (7*generation+11*i+3*len(e.Name)+cpu)%40
		e.Offerings = append(e.Offerings,
			offering{Zone: zone, CapacityType: "on-demand", Price: priced(float64(price) / 1e6), Available: &available},
			offering{Zone: zone, CapacityType: "spot", Price: priced(float64(price*percent/100) / 1e6), Available: &available})
	}
	return e
}

// microDollars per hour on demand: so much for each CPU and each GiB, a fifth less on arm64, three percent less than
// the generation before.
func (f family) microDollars(architecture string, generation, cpu int) int {
	price := cpu * (32000 + 4200*f.ratio) * (112 - 3*generation) / 100
	if architecture == "arm64" {
		price = price * 4 / 5
	}
	return price
}
