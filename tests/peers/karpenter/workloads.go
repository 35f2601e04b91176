package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/fake"
)

// workload is what one folder holds; pods without a node are pending.
type workload struct {
	types      []entry
	disruption v1.Disruption
	nodes      []existing
	pods       []*corev1.Pod
}

// workloads are all that can be written, by the name of their folder. The same program writes the same bytes each time.
var workloads = map[string]func() workload{
	"diverse-100":      func() workload { return diverseWorkload(100) },
	"diverse-1000":     func() workload { return diverseWorkload(1000) },
	"diverse-20000":    func() workload { return diverseWorkload(20000) },
	"preferences-4000": preferencesWorkload,
	"existing-500":     func() workload { return existingWorkload(500) },
	"existing-2000":    func() workload { return existingWorkload(2000) },
	"pending-33000":    pendingWorkload,
	"settled-50":       func() workload { return settledWorkload(50) },
	"settled-5000":     func() workload { return settledWorkload(5000) },
}

// writeWorkload writes the workload that the folder is named after into it.
func writeWorkload(folder string) error {
	name := filepath.Base(filepath.Clean(folder))
	build, known := workloads[name]
	if !known {
		return fmt.Errorf("no workload is called %q; name the folder after one of these: %s", name,
			strings.Join(slices.Sorted(maps.Keys(workloads)), ", "))
	}
	return build().write(folder)
}

// benchmarkTypes are the 400 of Karpenter's benchmark.
func benchmarkTypes() []entry {
	var types []entry
	for _, it := range fake.InstanceTypes(400) {
		types = append(types, entryOf(it))
	}
	return types
}

func diverseWorkload(count int) workload {
	return workload{types: benchmarkTypes(), pods: diversePods(newDraws(), count)}
}

func preferencesWorkload() workload {
	return workload{types: benchmarkTypes(), pods: preferencePods(newDraws(), 4000)}
}

// existingWorkload has 5,000 diverse pods pending beside nodes that are between a tenth and nine tenths full of
// generic pods; every tenth node also runs one of the pods that exclude each other. The nodes are small, so that 500
// have no capacity for all pods and 2,000 do. The pods on the nodes carry the labels that the pending pods spread by.
func existingWorkload(count int) workload {
	types := benchmarkTypes()
	w := workload{types: types, pods: diversePods(newDraws(), 5000)}
	d := newDraws()
	sizes := []entry{types[1], types[3], types[7], types[15]}
	for i := range count {
		node := newExisting(i, sizes[d.Intn(len(sizes))], d)
		if i%10 == 0 {
			node.add(d.hostAntiAffinity())
		}
		node.fill(10+d.Intn(81), d.generic)
		w.nodes = append(w.nodes, node)
	}
	return w
}

// pendingWorkload has 33,000 pods of 50 shapes, 660 of each and none with a topology, beside 2,000 nodes that are
// between three and nine tenths full, and 700 types of either architecture from 1 to 192 CPUs. The nodes have capacity for
// most of the pods, not for all.
func pendingWorkload() workload {
	w := workload{types: assortedTypes()}
	d := newDraws()
	var shapes []shape
	for i := range 50 {
		shapes = append(shapes, newShape(i, d))
	}
	for i := range 33000 {
		w.pods = append(w.pods, shapes[i%len(shapes)].pod())
	}
	named("pending", w.pods)
	var sizes []entry
	for _, e := range w.types {
		if cpu := e.Capacity.Cpu().Value(); cpu >= 4 && cpu <= 32 {
			sizes = append(sizes, e)
		}
	}
	for i := range 2000 {
		node := newExisting(i, sizes[d.Intn(len(sizes))], d)
		node.fill(30+d.Intn(61), func() *corev1.Pod { return shapes[d.Intn(len(shapes))].pod() })
		w.nodes = append(w.nodes, node)
	}
	return w
}

// settledWorkload has no pod pending: 20 pods of 500 sizes run on each node of 16 to 32 CPUs, which fills about half of
// it. All nodes may go at once, so that none is passed over because a budget is spent.
func settledWorkload(count int) workload {
	w := workload{types: assortedTypes(), disruption: v1.Disruption{
		ConsolidateAfter:    v1.MustParseNillableDuration("0s"),
		ConsolidationPolicy: v1.ConsolidationPolicyWhenEmptyOrUnderutilized,
		Budgets:             []v1.Budget{{Nodes: "100%"}},
	}}
	d := newDraws()
	var sizes []entry
	for _, e := range w.types {
		cpu, memory := e.Capacity.Cpu().Value(), e.Capacity.Memory().Value()
		if cpu >= 16 && cpu <= 32 && memory >= cpu*4<<30 {
			sizes = append(sizes, e)
		}
	}
	for i := range count {
		node := newExisting(i, sizes[d.Intn(len(sizes))], d)
		for len(node.pods) < 20 {
			if p := smallShape(d.Intn(500)).pod(); node.takes(p, 100) {
				node.add(p)
			}
		}
		w.nodes = append(w.nodes, node)
	}
	return w
}

// shape is a workload whose pods are all alike.
type shape struct {
	index, cpu, memory int
	architecture       string
}

// newShape asks for one architecture in four of five cases, as images of one architecture make people do.
func newShape(index int, d draws) shape {
	cpu := []int{50, 100, 200, 250, 400, 500, 750, 1000, 1500, 2000}[d.Intn(10)]
	perCPU := []int{1024, 2048, 4096, 8192}[d.Intn(4)]
	architecture := []string{"arm64", "amd64", "amd64", "amd64", ""}[index%5]
	return shape{index: index, cpu: cpu, memory: cpu * perCPU / 1000, architecture: architecture}
}

// smallShape is one of many sizes of at most one CPU and 4 GiB, for any architecture.
func smallShape(index int) shape {
	return shape{index: index, cpu: 50 + index*37%950, memory: 64 + index*101%4000}
}

func (s shape) pod() *corev1.Pod {
	name := fmt.Sprintf("shape-%02d", s.index)
	p := pod(map[string]string{"app": name}, requests(s.cpu, s.memory))
	if s.architecture != "" {
		p.Spec.NodeSelector = map[string]string{corev1.LabelArchStable: s.architecture}
	}
	controller := true
	p.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: uid("shape", s.index), Controller: &controller,
	}}
	return p
}

// nodePool is the benchmark's: no requirements, limits out of reach, one label on its nodes.
func nodePool() *v1.NodePool {
	pool := &v1.NodePool{
		TypeMeta:   metav1.TypeMeta{APIVersion: "karpenter.sh/v1", Kind: "NodePool"},
		ObjectMeta: metav1.ObjectMeta{Name: "default", UID: uid("pool", 0), CreationTimestamp: born, Generation: 1},
	}
	pool.Spec.Limits = v1.Limits{
		corev1.ResourceCPU:    resource.MustParse("10000000"),
		corev1.ResourceMemory: resource.MustParse("10000000Gi"),
	}
	pool.Spec.Template.Labels = map[string]string{"testing/cluster": "unspecified"}
	pool.Spec.Template.Spec.NodeClassRef = nodeClassRef()
	pool.Status.Nodes = new(int64)
	pool.Spec.Template.Spec.Requirements = []v1.NodeSelectorRequirementWithMinValues{}
	return pool
}

func nodeClassRef() *v1.NodeClassReference {
	return &v1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
}

// nodeClass is there for Kerf, which wants to know a pool's class; Karpenter's scheduler never looks at it.
func nodeClass() map[string]any {
	all := []map[string]any{{"tags": map[string]string{"cluster": "benchmark"}}}
	return map[string]any{
		"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
		"metadata": map[string]any{"name": "default", "uid": uid("class", 0), "creationTimestamp": born},
		"spec": map[string]any{
			"role": "node", "amiSelectorTerms": []map[string]any{{"alias": "al2023@latest"}},
			"subnetSelectorTerms": all, "securityGroupSelectorTerms": all,
		},
	}
}

func namespace() *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "default", UID: uid("namespace", 0), CreationTimestamp: born,
			Labels: map[string]string{corev1.LabelMetadataName: "default"},
		},
		Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}
}

func (w workload) objects() []any {
	pool := nodePool()
	pool.Spec.Disruption = w.disruption
	objects := []any{namespace(), nodeClass(), pool}
	for _, node := range w.nodes {
		objects = append(objects, node.claim, node.node)
		for _, p := range node.pods {
			objects = append(objects, p)
		}
	}
	for _, p := range w.pods {
		objects = append(objects, p)
	}
	return objects
}

func (w workload) write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var types []any
	for _, e := range w.types {
		types = append(types, e)
	}
	if err := writeArray(filepath.Join(folder, "catalogue.json"), `{"instanceTypes":[`, types); err != nil {
		return err
	}
	return writeArray(filepath.Join(folder, "objects.json"), `{"apiVersion":"v1","kind":"List","items":[`, w.objects())
}

// writeArray writes one element a line, so that a fixture can be read and compared; `head` opens object and array.
func writeArray(path, head string, elements []any) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	buffer := bufio.NewWriter(file)
	fmt.Fprintln(buffer, head)
	for i, element := range elements {
		text, err := json.Marshal(element)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if i > 0 {
			fmt.Fprintln(buffer, ",")
		}
		buffer.Write(text)
	}
	fmt.Fprintln(buffer, "\n]}")
	if err := buffer.Flush(); err != nil {
		return err
	}
	return file.Close()
}
