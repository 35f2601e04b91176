//! The sampler on a folder that represents a machine. The sampler finds each fault, laid out in files and sockets as the kernel
//! shows it. After repair the sampler no longer reports the fault.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::fs;
use std::io::Write as _;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use agent::health::{Check, Health, HealthSample, Sampler, check};
use agent::host::Host;
use agent::host::clock::WallOffset;
use drain::Millis;
use machine::agent::health::{HealthSettings, Percent};
use tempfile::TempDir;
use tokio::net::{UnixListener, UnixSocket};

const MOUNTS: &str = "22 1 259:1 / / rw,noatime shared:1 - xfs /dev/nvme0n1p1 rw,attr2\n\
                      30 22 259:5 / /var/lib/kubelet ro,noatime shared:9 - ext4 /dev/nvme1n1 rw\n";
const ROUTES: &str = "Iface\tDestination\tGateway\tFlags\neth0\t00000000\t0100000A\t0003\t0\n";
const NO_V6: &str = "00000000000000000000000000000000 00 0 00 0 ffffffff 00000001 00000000 00200200 lo\n";

struct TestRoot(TempDir);

impl TestRoot {
    fn new() -> Self {
        let test_root = Self(tempfile::tempdir().unwrap());
        test_root.write("proc/self/mountinfo", MOUNTS);
        test_root.write("proc/net/route", ROUTES);
        test_root.write("proc/net/ipv6_route", NO_V6);
        test_root.write("proc/stat", "cpu 1 2 3\nbtime 1767268800\n");
        test_root.write("dev/kmsg", "6,1,100,-;Linux version 6.12\n");
        test_root.write("bin/systemctl", "#!/bin/sh\nexit 1\n");
        fs::set_permissions(test_root.0.path().join("bin/systemctl"), fs::Permissions::from_mode(0o755)).unwrap();
        test_root
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Appends a line to the log of the kernel.
    fn kernel(&self, line: &str) {
        let mut file = fs::OpenOptions::new().append(true).open(self.0.path().join("dev/kmsg")).unwrap();
        writeln!(file, "3,77,5000000,-;{line}").unwrap();
    }

    /// Adds a device on the PCI bus, whose configuration begins with its identity.
    fn device(&self, name: &str, vendor: &str, kind: &str, class: &str, config: &[u8]) {
        let folder = format!("sys/bus/pci/devices/{name}");
        let fields = [("vendor", vendor), ("device", kind), ("class", class)];
        fields.iter().for_each(|(field, text)| self.write(&format!("{folder}/{field}"), &format!("{text}\n")));
        fs::write(self.0.path().join(&folder).join("config"), config).unwrap();
    }

    /// Adds a GPU and a Neuron device.
    fn accelerators(&self) {
        self.device("0000:00:1e.0", "0x10de", "0x2237", "0x030200", &[0xde, 0x10, 0x37, 0x22, 0]);
        self.device("0000:00:1f.0", "0x1d0f", "0x7164", "0x088000", &[0x0f, 0x1d, 0x64, 0x71, 0]);
    }

    /// Makes `systemctl` print `answer` for every unit.
    fn systemd(&self, answer: &str) {
        self.write("bin/systemctl", &format!("#!/bin/sh\ncat <<END\n{answer}\nEND\n"));
    }

    fn sampler(&self) -> Sampler {
        self.sampler_with(HealthSettings::default())
    }

    fn sampler_with(&self, settings: HealthSettings) -> Sampler {
        let path = format!("{}:/usr/bin:/bin", self.0.path().join("bin").display());
        Sampler::new(Host::new(self.0.path(), path), settings)
    }
}

fn found(sample: &HealthSample, check: &Check) -> Option<String> {
    let run_check = sample.checks.iter().find(|run_check| run_check.check == *check);
    run_check.unwrap_or_else(|| unreachable!("no check for {check:?}: {sample:?}")).trouble.clone()
}

async fn run_check(sampler: &mut Sampler, check: &Check) -> Option<String> {
    found(&sampler.sample(Millis(0)).await, check)
}

#[tokio::test]
async fn sampler_reports_no_trouble_when_machine_is_healthy() {
    let test_root = TestRoot::new();
    let mut sampler = test_root.sampler();
    for _ in 0..3 {
        let sample = sampler.sample(Millis(0)).await;
        assert!(sample.checks.iter().all(|run_check| run_check.trouble.is_none()), "{sample:?}");
        assert!(sample.incidents.is_empty() && sample.checks.len() >= 4, "{sample:?}");
    }
    // An empty folder gives no data, so the sampler reports no trouble.
    let empty = tempfile::tempdir().unwrap();
    let mut sampler = Sampler::new(Host::new(empty.path(), ""), HealthSettings::default());
    let sample = sampler.sample(Millis(0)).await;
    assert!(sample.checks.iter().all(|run_check| run_check.trouble.is_none()), "{sample:?}");
}

#[tokio::test]
async fn sampler_reports_full_read_only_slow_and_hung_disks() {
    let test_root = TestRoot::new();
    // The limit is 0 %, so any disk of the test machine counts as full.
    let settings = HealthSettings { disk_full_percent: Percent(0), ..HealthSettings::default() };
    let full = run_check(&mut test_root.sampler_with(settings), &check::DISK_FULL).await.unwrap();
    assert!(full.starts_with("/ is ") && full.contains("% full"), "{full}");

    let mut sampler = test_root.sampler();
    test_root.write("proc/self/mountinfo", &MOUNTS.replace("/dev/nvme1n1 rw", "/dev/nvme1n1 ro"));
    assert_eq!(run_check(&mut sampler, &check::READ_ONLY).await.unwrap(), "/var/lib/kubelet is not writable");
    assert_eq!(run_check(&mut sampler, &check::READ_ONLY_ROOT).await, None);
    test_root.write("proc/self/mountinfo", &MOUNTS.replace("p1 rw,attr2", "p1 ro,attr2"));
    assert_eq!(run_check(&mut sampler, &check::READ_ONLY).await, None);
    assert!(run_check(&mut sampler, &check::READ_ONLY_ROOT).await.is_some());
    test_root.write("etc/os-release", "NAME=Bottlerocket\nID=bottlerocket\n");
    assert_eq!(run_check(&mut test_root.sampler(), &check::READ_ONLY_ROOT).await, None, "its root is always sealed");
    test_root.write("proc/self/mountinfo", MOUNTS);
    assert_eq!(run_check(&mut sampler, &check::READ_ONLY_ROOT).await, None);

    let stats = |done: u64, waited: u64, in_flight: u64, busy: u64| {
        let line = format!("259 0 nvme1n1 {done} 0 8 {waited} 0 0 0 0 {in_flight} {busy} 0\n");
        test_root.write("proc/diskstats", &format!("7 0 loop0 9 0 0 99999 0 0 0 0 9 99999 0\n{line}"));
    };
    let rows = [
        ((100, 1000, 0, 0), None),
        ((110, 1100, 1, 100), None),
        ((112, 3100, 1, 2100), Some("nvme1n1 takes 1000 ms")),
        ((112, 3100, 1, 17_100), Some("nvme1n1 completed no request for 15000 ms")),
        ((112, 3100, 0, 17_100), None),
        ((200, 3200, 0, 17_200), None),
        ((201, 12_200, 0, 26_200), Some("nvme1n1 takes 9000 ms")),
        ((202, 22_200, 0, 36_200), Some("nvme1n1 takes 10000 ms")),
    ];
    for ((done, waited, in_flight, busy), trouble) in rows {
        stats(done, waited, in_flight, busy);
        let sample = sampler.sample(Millis(0)).await;
        let useless = trouble.is_some_and(|words: &str| words.contains("no request") || words.contains("10000"));
        assert_eq!(found(&sample, &check::DISK_HUNG).is_some(), useless, "{sample:?}");
        let message = found(&sample, &check::DISK_SLOW);
        assert_eq!(message.is_some(), trouble.is_some(), "{message:?}");
        assert!(message.unwrap_or_default().contains(trouble.unwrap_or_default()));
    }
}

#[tokio::test]
async fn sampler_reports_no_route_when_default_route_is_missing() {
    let test_root = TestRoot::new();
    let mut sampler = test_root.sampler();
    assert_eq!(run_check(&mut sampler, &check::NO_ROUTE).await, None);
    test_root.write("proc/net/route", "Iface\tDestination\tGateway\tFlags\neth0\t0000000A\t00000000\t0001\t0\n");
    assert!(run_check(&mut sampler, &check::NO_ROUTE).await.is_some(), "the one on lo refuses everything");
    let v6 = "00000000000000000000000000000000 00 0 00 fe80 00000400 00000001 00000000 00000003 eth0\n";
    test_root.write("proc/net/ipv6_route", &format!("{NO_V6}{v6}"));
    assert_eq!(run_check(&mut sampler, &check::NO_ROUTE).await, None);
}

#[tokio::test]
async fn sampler_reports_no_dns_when_no_server_resolves() {
    let test_root = TestRoot::new();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    test_root.write("etc/resolv.conf", "# made by hand\nsearch x\nnameserver 127.0.0.1\nnameserver 10.0.0.2\n");
    test_root.write(
        "var/lib/kubelet/kubeconfig",
        "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://abc.eks.test'}}]\n\
         contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\nusers: [{name: u, user: {}}]\n",
    );
    let answer = |code: u8| {
        let server = server.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut packet = [0; 512];
            let (length, from) = server.recv_from(&mut packet).unwrap();
            let asked = packet[..length].to_vec();
            // An answer with another id comes first and must be ignored.
            server.send_to(&[!packet[0], packet[1], 0x80, 0, 0, 0], from).unwrap();
            packet[2] |= 0x80;
            packet[3] = code;
            server.send_to(&packet[..length], from).unwrap();
            asked
        })
    };
    let rows = [(0, None), (3, None), (2, Some("error 2"))];
    let mut ids = Vec::new();
    for (code, trouble) in rows {
        let asked = answer(code);
        let sample = test_root.sampler().with_dns_port(port).sample(Millis(0)).await;
        let message = found(&sample, &check::NO_DNS);
        assert_eq!(found(&sample, &check::NAMES_LOST), message);
        let asked = asked.join().unwrap();
        ids.push(asked[..2].to_vec());
        assert_eq!(&asked[12..], b"\x03abc\x03eks\x04test\0\0\x01\0\x01");
        assert_eq!(message.is_some(), trouble.is_some(), "{message:?}");
        assert!(message.unwrap_or_default().contains(trouble.unwrap_or_default()));
    }
    // Three equal random ids are less likely than a fault of the machine.
    assert!(ids.iter().any(|id| *id != ids[0]), "an id that can be guessed: {ids:?}");
    let silent = run_check(&mut test_root.sampler().with_dns_port(port), &check::NO_DNS).await.unwrap();
    assert!(silent.contains("name server 127.0.0.1 does not resolve abc.eks.test"), "{silent}");
}

#[tokio::test]
async fn sampler_reports_failed_and_restarting_units() {
    let test_root = TestRoot::new();
    let mut sampler = test_root.sampler();
    let sample = sampler.sample(Millis(0)).await;
    assert!(!sample.checks.iter().any(|run_check| run_check.check == check::KUBELET_FAILED), "unknown: {sample:?}");
    test_root.systemd("LoadState=loaded\nActiveState=activating\nSubState=auto-restart\nResult=exit-code\nNRestarts=5");
    let mut sampler = test_root.sampler();
    let message = run_check(&mut sampler, &check::KUBELET_FAILED).await.unwrap();
    assert_eq!(message, "kubelet.service is activating (auto-restart), result exit-code, 5 restarts");
    let message = run_check(&mut sampler, &check::RUNTIME_FAILED).await.unwrap();
    assert!(message.starts_with("containerd.service is activating"), "{message}");

    let group = "sys/fs/cgroup/runtime.slice/kubelet.service/cgroup.procs";
    test_root.write(group, "100\n");
    assert_eq!(run_check(&mut sampler, &check::KUBELET_FAILED).await, None);
    let mut restarts = 0;
    for process in ["101\n", "101\n", "", "102\n", "103\n"] {
        test_root.write(group, process);
        let sample = sampler.sample(Millis(0)).await;
        restarts += sample.incidents.iter().filter(|it| it.check == check::KUBELET_RESTARTS).count();
    }
    assert_eq!(restarts, 3);

    let path = test_root.0.path().join("run/containerd/containerd.sock");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let listener = UnixListener::bind(&path).unwrap();
    assert_eq!(run_check(&mut sampler, &check::RUNTIME_FAILED).await, None);
    drop(listener);
    fs::remove_file(&path).unwrap();
    // Nothing listens, as after a crash. The dropped listener itself may live on in a child that another test just forked.
    let silent = UnixSocket::new_stream().unwrap();
    silent.bind(&path).unwrap();
    test_root.systemd("LoadState=loaded\nActiveState=active\nSubState=running");
    let message = run_check(&mut sampler, &check::RUNTIME_FAILED).await.unwrap();
    assert!(message.contains("containerd.sock refuses connections"), "{message}");
}

#[tokio::test]
async fn sampler_reports_kernel_log_lines_as_incidents_with_time() {
    let test_root = TestRoot::new();
    test_root.accelerators();
    let mut sampler = test_root.sampler();
    assert!(sampler.sample(Millis(0)).await.incidents.is_empty());
    let rows = [
        ("Out of memory: Killed process 4242 (java) total-vm:1kB", "KernelReady", "OOMLoop", true),
        ("INFO: task jbd2/nvme0n1:77 blocked for more than 122 seconds.", "KernelReady", "AppBlocked", false),
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 26s!", "KernelReady", "SoftLockup", false),
        ("kernel BUG at mm/slub.c:1!", "KernelReady", "KernelBug", false),
        ("nf_conntrack: nf_conntrack: table full, dropping packet", "KernelReady", "ConntrackExceededKernel", false),
        ("I/O error, dev nvme1n1, sector 8 op 0x0:(READ)", "StorageReady", "BlockDeviceIOError", false),
        (
            "XFS (nvme0n1p1): Log I/O Error Detected.  Shutting down filesystem",
            "StorageReady",
            "FilesystemShutdown",
            true,
        ),
        (
            "NVRM: Xid (PCI:0000:00:1e): 79, pid=1, GPU has fallen off the bus.",
            "AcceleratedHardwareReady",
            "NvidiaXID79Error",
            true,
        ),
        ("NVRM: Xid (PCI:0000:00:1e): 48, pid=1, DBE", "AcceleratedHardwareReady", "NvidiaDoubleBitError", true),
        ("NVRM: Xid (PCI:0000:00:1e): 31, pid=1, MMU fault", "AcceleratedHardwareReady", "NvidiaXID31Warning", false),
        (
            "neuron: NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR hardware_id=1",
            "AcceleratedHardwareReady",
            "NeuronHBMUncorrectableError",
            true,
        ),
    ];
    for (line, ..) in &rows {
        test_root.kernel(line);
    }
    // The sampler ignores the OOM kill by a memory limit of a pod, and every unrelated line.
    test_root.kernel("Memory cgroup out of memory: Killed process 7 (java)");
    test_root.kernel("eth0: link becomes ready");
    let incidents = sampler.sample(Millis(0)).await.incidents;
    let reported: Vec<_> =
        incidents.iter().map(|it| (it.check.condition, it.check.reason.as_ref(), it.check.fatal)).collect();
    let expected: Vec<_> = rows.iter().map(|(_, condition, reason, fatal)| (*condition, *reason, *fatal)).collect();
    assert_eq!(reported, expected);
    assert!(incidents.iter().all(|it| it.at == Millis(1_767_268_805_000)), "boot and five seconds");
    assert!(sampler.sample(Millis(0)).await.incidents.is_empty(), "each is told once");
    assert_eq!(test_root.sampler().sample(Millis(0)).await.incidents.len(), rows.len(), "a restart reads them again");
}

#[tokio::test]
async fn sampler_ignores_records_of_programs_and_of_absent_devices() {
    let test_root = TestRoot::new();
    let mut sampler = test_root.sampler();
    let oom = "Out of memory: Killed process 4242 (java) total-vm:1kB";
    test_root.write("dev/kmsg", &format!("11,7,5000000,-;{oom}\n8,8,5000000,-;{oom}\n;{oom}\n,,5;{oom}\n"));
    test_root.kernel("NVRM: Xid (PCI:0000:00:1e): 79, pid=1, GPU has fallen off the bus.");
    test_root.kernel("neuron: NEURON_HW_ERR=DMA_ERROR hardware_id=1");
    test_root.kernel("app[77]: segfault at 0 ip 00 sp 00 error 4 in Shutting down filesystem[400000+1000]");
    assert_eq!(sampler.sample(Millis(0)).await.incidents, []);
}

#[tokio::test]
async fn health_clears_when_one_kernel_message_does_not_recur() {
    let test_root = TestRoot::new();
    test_root.accelerators();
    let lines = [
        "XFS (nvme0n1p1): Log I/O Error Detected.  Shutting down filesystem",
        "NVRM: Xid (PCI:0000:00:1e): 79, pid=1, GPU has fallen off the bus.",
        "neuron: NEURON_HW_ERR=DMA_ERROR hardware_id=1",
        "INFO: task jbd2/nvme0n1:77 blocked for more than 122 seconds.",
        "kernel BUG at mm/slub.c:1!",
    ];
    lines.iter().for_each(|line| test_root.kernel(line));
    let (mut sampler, mut health) = (test_root.sampler(), Health::default());
    let boot = Millis(1_767_268_800_000);
    for (seconds, troubles) in [(5, lines.len()), (3604, 3), (3605, 0)] {
        let now = boot + Duration::from_secs(seconds);
        let sample = HealthSample { checks: Vec::new(), ..sampler.sample(now).await };
        health.take(sample, WallOffset::default(), now);
        let report = health.report(false, WallOffset::default());
        assert_eq!(report.troubles.len(), troubles, "after {seconds} s: {report:?}");
    }
}

#[tokio::test]
async fn sampler_reports_hung_task_until_it_runs_or_ends() {
    let test_root = TestRoot::new();
    let mut sampler = test_root.sampler();
    let status = |id: u32, state: &str, switches: u32| {
        let text = format!(
            "Name:\tx\nState:\t{state}\nvoluntary_ctxt_switches:\t{switches}\nnonvoluntary_ctxt_switches:\t2\n"
        );
        test_root.write(&format!("proc/{id}/status"), &text);
    };
    status(77, "D (disk sleep)", 5);
    assert_eq!(run_check(&mut sampler, &check::TASK_HUNG).await, None, "the kernel has not complained");
    test_root.kernel("INFO: task jbd2/nvme0n1:77 blocked for more than 122 seconds.");
    test_root.kernel("INFO: task kworker/1:2:78 blocked for more than 122 seconds.");
    test_root.kernel("INFO: task jbd2/nvme0n1:77 blocked for more than 245 seconds.");
    status(78, "D (disk sleep)", 9);
    for _ in 0..3 {
        let message = run_check(&mut sampler, &check::TASK_HUNG).await.unwrap();
        assert_eq!(message, "task jbd2/nvme0n1 (77) is blocked in the kernel and 1 more");
    }
    // The task has run in between, and now waits for something else.
    status(77, "D (disk sleep)", 6);
    let message = run_check(&mut sampler, &check::TASK_HUNG).await.unwrap();
    assert_eq!(message, "task kworker/1:2 (78) is blocked in the kernel");
    let mut again = test_root.sampler();
    assert!(run_check(&mut again, &check::TASK_HUNG).await.is_some(), "a restart reads the kernel's log again");
    for ended in [false, true] {
        status(78, "S (sleeping)", 9);
        if ended {
            fs::remove_dir_all(test_root.0.path().join("proc/78")).unwrap();
        }
        assert_eq!(run_check(&mut sampler, &check::TASK_HUNG).await, None);
    }
}

#[tokio::test]
async fn sampler_reports_accelerator_when_it_left_the_pci_bus() {
    let test_root = TestRoot::new();
    test_root.accelerators();
    test_root.device("0000:00:03.0", "0x1d0f", "0xec20", "0x020000", &[0xff; 8]);
    let mut sampler = test_root.sampler();
    for check in [check::NVIDIA_LOST, check::NEURON_LOST] {
        assert_eq!(run_check(&mut sampler, &check).await, None);
    }
    fs::write(test_root.0.path().join("sys/bus/pci/devices/0000:00:1e.0/config"), [0xff; 8]).unwrap();
    fs::remove_dir_all(test_root.0.path().join("sys/bus/pci/devices/0000:00:1f.0")).unwrap();
    let message = run_check(&mut sampler, &check::NVIDIA_LOST).await.unwrap();
    assert_eq!(message, "1 of 1 devices do not respond: 0000:00:1e.0");
    assert!(run_check(&mut sampler, &check::NEURON_LOST).await.is_some());
}
