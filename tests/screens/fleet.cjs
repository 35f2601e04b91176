// Manifests of a fleet: NodePools with nodes, their pods and measured use, and pods without a place.
"use strict";

const fs = require("node:fs");
const path = require("node:path");

/** Time of the plan. */
const NOW = "2026-11-21T12:00:00Z";
const CREATED = "2026-11-20T08:00:00Z";
const ZONES = ["us-east-1a", "us-east-1b", "us-east-1c"];
/** NodePools, with the instance type of their nodes. */
const POOLS = [
  { name: "general", type: "m7g.xlarge", cpu: 4, memory: 16, capacity: "on-demand", share: 5 },
  { name: "batch", type: "c7g.2xlarge", cpu: 8, memory: 16, capacity: "spot", share: 4 },
  { name: "databases", type: "r7g.xlarge", cpu: 4, memory: 32, capacity: "on-demand", share: 3 },
];
const WORKLOADS = {
  general: [["shop", "web", "500m", "1Gi"], ["shop", "cart", "250m", "512Mi"], ["search", "api", "750m", "2Gi"]],
  batch: [["reports", "export", "2", "3Gi"], ["reports", "resize", "1", "1Gi"]],
  databases: [["data", "orders", "1500m", "12Gi"], ["data", "cache", "500m", "8Gi"]],
};

function pool({ name, type, capacity }) {
  return {
    apiVersion: "karpenter.sh/v1", kind: "NodePool", metadata: { name },
    spec: {
      disruption: { consolidateAfter: "1m", budgets: [{ nodes: "30%" }] },
      template: {
        metadata: { labels: { tier: name } },
        spec: {
          nodeClassRef: { group: "karpenter.k8s.aws", kind: "EC2NodeClass", name: "default" },
          requirements: [
            { key: "karpenter.sh/capacity-type", operator: "In", values: [capacity] },
            { key: "kubernetes.io/arch", operator: "In", values: ["arm64"] },
            { key: "node.kubernetes.io/instance-type", operator: "In", values: [type, type.replace(/[0-9]?xlarge/, "large")] },
          ],
        },
      },
    },
  };
}

const nodeClass = {
  apiVersion: "karpenter.k8s.aws/v1", kind: "EC2NodeClass", metadata: { name: "default" },
  spec: {
    amiSelectorTerms: [{ alias: "al2023@latest" }], role: "nodes",
    subnetSelectorTerms: [{ tags: { "karpenter.sh/discovery": "shop" } }],
    securityGroupSelectorTerms: [{ tags: { "karpenter.sh/discovery": "shop" } }],
  },
};

const condition = (type, time = CREATED) => ({ type, status: "True", reason: type, message: "", lastTransitionTime: time });

/** Objects of one node: NodeClaim, Node and the measured use. */
function node(number, { name: poolName, type, cpu, memory, capacity }) {
  const zone = ZONES[number % ZONES.length];
  const name = `ip-10-0-${Math.floor(number / 250)}-${(number % 250) + 4}.ec2.internal`;
  const id = `i-${(0x1000000000 + number).toString(16)}`;
  const labels = {
    "karpenter.sh/nodepool": poolName, "karpenter.sh/capacity-type": capacity, "karpenter.sh/registered": "true",
    "karpenter.sh/initialized": "true", "kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux",
    "kubernetes.io/hostname": name, "node.kubernetes.io/instance-type": type, "topology.kubernetes.io/zone": zone, tier: poolName,
  };
  const amount = (cores, gibibytes) => ({ cpu: `${Math.round(cores * 1000)}m`, memory: `${gibibytes}Gi`, pods: "58" });
  const used = (part) => `${Math.round(cpu * 1000 * part)}m`;
  const bytes = (part) => `${Math.round(memory * 1024 * part)}Mi`;
  const load = 0.2 + (number % 5) * 0.1;
  const spread = (text) => ({ p50: text(load * 0.6), p95: text(load), p99: text(load), peak5m: text(load), peak1h: text(load), peak24h: text(load) });
  return [
    {
      apiVersion: "karpenter.sh/v1", kind: "NodeClaim",
      metadata: { name: `${poolName}-${number}`, labels, creationTimestamp: CREATED },
      spec: { nodeClassRef: { group: "karpenter.k8s.aws", kind: "EC2NodeClass", name: "default" }, requirements: [] },
      status: { nodeName: name, providerID: `aws:///${zone}/${id}`, conditions: ["Launched", "Registered", "Initialized", "Ready"].map((it) => condition(it)) },
    },
    {
      apiVersion: "v1", kind: "Node", metadata: { name, labels, creationTimestamp: CREATED },
      spec: { providerID: `aws:///${zone}/${id}` },
      status: { capacity: amount(cpu, memory), allocatable: amount(cpu - 0.1, memory - 1), conditions: [condition("Ready")] },
    },
    {
      apiVersion: "kerf.sh/v1alpha1", kind: "NodeUsage", metadata: { name },
      spec: {
        instance: id, measuredAt: "2026-11-21T11:58:00Z", since: "2026-11-19T00:00:00Z", cpu: spread(used), memory: spread(bytes),
        throttled: 0, oomKills: 0, histograms: { cpu: "", memory: "", joint: "" }, pods: "AQ",
      },
    },
  ];
}

function pod(name, [namespace, app, cpu, memory], selector, nodeName) {
  const bound = [condition("PodScheduled"), condition("Ready")];
  const refused = [{ type: "PodScheduled", status: "False", reason: "Unschedulable", lastTransitionTime: "2026-11-21T11:59:00Z" }];
  return {
    apiVersion: "v1", kind: "Pod",
    metadata: {
      name, namespace, labels: { app, team: namespace }, creationTimestamp: nodeName ? CREATED : "2026-11-21T11:58:00Z",
      ownerReferences: [{ apiVersion: "apps/v1", kind: "ReplicaSet", name: app, uid: app, controller: true }],
    },
    spec: { nodeName, nodeSelector: selector, containers: [{ name: "main", image: "main", resources: { requests: { cpu, memory } } }] },
    status: { phase: nodeName ? "Running" : "Pending", conditions: nodeName ? bound : refused },
  };
}

/** Returns the pods of a node, fewer on every fourth one. */
function podsOf(number, { name: poolName }, nodeName) {
  const workloads = WORKLOADS[poolName];
  const count = number % 4 === 3 ? 1 : 2 + (number % 2);
  return Array.from({ length: count }, (_, index) => {
    const workload = workloads[(number + index) % workloads.length];
    return pod(`${workload[1]}-${number}-${index}`, workload, { tier: poolName }, nodeName);
  });
}

/** Returns the objects of a fleet with this number of nodes. */
function fleet(nodes) {
  const rounds = POOLS.flatMap((one) => Array(one.share).fill(one));
  const objects = [nodeClass, ...POOLS.map(pool)];
  for (let number = 0; number < nodes; number += 1) {
    const own = rounds[number % rounds.length];
    const parts = node(number, own);
    objects.push(...parts, ...podsOf(number, own, parts[1].metadata.name));
  }
  objects.push(pod("train-0", ["ml", "train", "96", "64Gi"], { tier: "general" }));
  return objects;
}

/** Writes the objects into a new file of the folder. */
function write(folder, objects) {
  const file = path.join(folder, "fleet.json");
  fs.writeFileSync(file, JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }));
  return file;
}

module.exports = { NOW, fleet, pod, write };
