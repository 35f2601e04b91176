package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/fake"
)

// workload is what one folder holds; pods without a node are pending.
type workload struct {
	name  string
	types []entry
	nodes []existing
	pods  []*corev1.Pod
}

// writeWorkloads writes every workload below the folder. The same program writes the same bytes each time.
func writeWorkloads(folder string) error {
	benchmark := benchmarkTypes()
	workloads := []workload{
		{name: "diverse-100", types: benchmark, pods: diversePods(newDraws(), 100)},
		{name: "diverse-1000", types: benchmark, pods: diversePods(newDraws(), 1000)},
		{name: "diverse-20000", types: benchmark, pods: diversePods(newDraws(), 20000)},
		{name: "preferences-4000", types: benchmark, pods: preferencePods(newDraws(), 4000)},
		existingWorkload("existing-500", benchmark, 500),
		existingWorkload("existing-2000", benchmark, 2000),
		pendingWorkload(),
	}
	for _, w := range workloads {
		if err := w.write(filepath.Join(folder, w.name)); err != nil {
			return err
		}
	}
	return nil
}

// benchmarkTypes are the 400 of Karpenter's benchmark.
func benchmarkTypes() []entry {
	var types []entry
	for _, it := range fake.InstanceTypes(400) {
		types = append(types, entryOf(it))
	}
	return types
}

// existingWorkload has 5,000 diverse pods pending beside nodes that are between a tenth and nine tenths full of
// generic pods; every tenth node also runs one of the pods that exclude each other. The nodes are small, so that 500
// have no room for all pods and 2,000 do. The pods on the nodes carry the labels that the pending pods spread by.
func existingWorkload(name string, types []entry, count int) workload {
	w := workload{name: name, types: types, pods: diversePods(newDraws(), 5000)}
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
// between three and nine tenths full, and 700 types of either architecture from 1 to 192 CPUs. The nodes have room for
// most of the pods, not for all.
func pendingWorkload() workload {
	w := workload{name: "pending-33000", types: assortedTypes()}
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
	objects := []any{namespace(), nodeClass(), nodePool()}
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
