//! Simulated machine for one test: a root folder, a fake `systemctl` on a search path of its own, and scripted metadata.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use agent::aws::imds::Imds;
use agent::aws::imds::backoff::Backoff;
use agent::bootstrap::plan::credentials::DEFAULT_PROVIDER;
use agent::bootstrap::{Bootstrap, BootstrapState};
use agent::host::Host;
use agent::host::environment::Environment;
use serde_json::json;
use tempfile::TempDir;

/// Minimal valid NodeConfig.
pub const USER_DATA: &str = include_str!("../minimal-nodeconfig.yaml");

/// One simulated machine.
pub struct TestHost {
    folder: TempDir,
}

impl TestHost {
    /// Creates a machine with two CPUs and the given version of kubelet.
    pub fn new(kubelet: &str) -> Self {
        let test_host = Self { folder: tempfile::tempdir().unwrap() };
        for (name, text) in [
            ("systemctl", SYSTEMCTL),
            ("kubelet", "#!/bin/sh\necho Kubernetes v1.36.3\n"),
            ("containerd", "#!/bin/sh\necho containerd github.com/containerd/containerd/v2 v2.0.5 fb4c30d\n"),
        ] {
            test_host.program(name, text);
        }
        test_host.write(DEFAULT_PROVIDER.trim_start_matches('/'), "a program\n");
        for cpu in ["cpu0", "cpu1"] {
            fs::create_dir_all(test_host.root().join("sys/devices/system/node/node0").join(cpu)).unwrap();
        }
        test_host.write("sys/devices/system/cpu/online", "0-1\n");
        if !kubelet.is_empty() {
            test_host.write("etc/eks/kubelet-version.txt", kubelet);
        }
        test_host
    }

    /// Returns the root folder of the machine.
    pub fn root(&self) -> std::path::PathBuf {
        self.folder.path().join("root")
    }

    /// Returns the search path of the machine's programs.
    pub fn search_path(&self) -> String {
        format!("{}:/usr/bin:/bin", self.folder.path().join("bin").display())
    }

    /// Returns the machine as a `Host` of the agent.
    pub fn host(&self) -> Host {
        Host::new(self.root(), self.search_path())
    }

    /// Returns a bootstrap that uses the IMDS at `endpoint` and waits 1 to 4 ms between attempts.
    pub fn bootstrap(&self, endpoint: &str) -> Bootstrap {
        let (start, ceiling) = (Duration::from_millis(1), Duration::from_millis(4));
        let imds = Arc::new(Imds::new(endpoint, Duration::from_secs(2)).unwrap());
        let credential_provider = DEFAULT_PROVIDER.to_owned();
        let (environment, backoff) = (Environment::default(), Backoff { start, ceiling, seed: 1 });
        Bootstrap { host: self.host(), imds, credential_provider, environment, backoff }
    }

    /// Writes a file below the root.
    pub fn write(&self, path: &str, content: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Makes the next call of `systemctl` fail.
    pub fn break_systemctl_once(&self) {
        fs::write(self.folder.path().join("bin/fail"), "").unwrap();
    }

    /// Returns the arguments of the calls of `systemctl` since the previous call of this function.
    pub fn systemctl_calls(&self) -> Vec<String> {
        let log = self.folder.path().join("bin/log");
        let calls = fs::read_to_string(&log).unwrap_or_default();
        let _ = fs::remove_file(log);
        calls.lines().map(str::to_owned).collect()
    }

    /// Returns the state that bootstrap last wrote.
    pub fn state(&self) -> BootstrapState {
        BootstrapState::read(self.host().at("/").as_path()).unwrap()
    }

    /// Installs a program in the search path of the machine.
    pub fn program(&self, name: &str, text: &str) {
        let folder = self.folder.path().join("bin");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), text).unwrap();
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Lets systemd report this exit status of a unit, and run the script at every other call.
    pub fn unit_exits(&self, status: i32, script: &str) {
        let show = format!("[ $1 = show ] && printf 'LoadState=loaded\\nExecMainStatus={status}\\n' && exit");
        self.program("systemctl", &format!("#!/bin/sh\n{show}\n{script}\necho \"$*\" >> \"${{0%/*}}/log\"\n"));
    }
}

const SYSTEMCTL: &str = r#"#!/bin/sh
here=${0%/*}
echo "$*" >> "$here/log"
if [ -e "$here/fail" ]; then
    rm "$here/fail"
    echo "Job for $2 failed." >&2
    exit 1
fi
"#;

/// Returns the metadata of an m4.xlarge in us-west-2f.
pub fn metadata(user_data: &str) -> BTreeMap<String, Vec<u8>> {
    let identity = json!({
        "instanceId": "i-1234567890abcdef0", "instanceType": "m4.xlarge", "region": "us-west-2",
        "availabilityZone": "us-west-2f", "accountId": "123456789012",
    });
    [
        ("dynamic/instance-identity/document", identity.to_string().as_str()),
        ("meta-data/local-hostname", "ip-172-16-34-43.us-west-2.compute.internal"),
        ("meta-data/local-ipv4", "172.16.34.43"),
        ("meta-data/mac", "0e:49:61:0f:c3:11"),
        ("meta-data/instance-life-cycle", "spot"),
        ("user-data", user_data),
    ]
    .map(|(path, body)| (path.to_owned(), body.as_bytes().to_vec()))
    .into()
}
