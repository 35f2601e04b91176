//! Settings of the agent, and their sources.

use agent::bootstrap::policies::{Policies, read};
use machine::agent::{AgentSettings, MEDIA_TYPE};
use machine::mime::{self, Part};

use crate::machine::Machine;

fn document(settings: &str) -> String {
    String::from_utf8(mime::render(&[Part::new(MEDIA_TYPE, settings)]).unwrap()).unwrap()
}

async fn read_policies(machine: &Machine) -> Policies {
    read(machine.root.path(), &machine.imds()).await.unwrap()
}

fn with_driver(name: &str) -> AgentSettings {
    let mut settings = AgentSettings::default();
    settings.gates.csi_drivers = vec![name.to_owned()];
    settings
}

#[tokio::test]
async fn read_prefers_user_data_to_the_file_of_the_image() {
    let machine = Machine::boot().await;
    assert_eq!(read_policies(&machine).await, Policies::default());
    machine.write("etc/kerf/agent.yaml", "gates: {csiDrivers: [image]}");
    assert_eq!(read_policies(&machine).await.settings, with_driver("image"));
    machine.answer("user-data", 200, "#!/bin/sh\n");
    assert_eq!(read_policies(&machine).await.settings, with_driver("image"), "user data of others does not mention it");
    machine.answer("user-data", 200, &document("gates: {csiDrivers: [told]}"));
    assert_eq!(read_policies(&machine).await, Policies { settings: with_driver("told"), problem: None });
}

#[tokio::test]
async fn read_reports_problem_and_falls_back_when_invalid() {
    let machine = Machine::boot().await;
    machine.write("etc/kerf/agent.yaml", "gates: {csiDrivers: [image]}");
    machine.answer("user-data", 200, &document("gates:\n  csi: [told]"));
    let followed = read_policies(&machine).await;
    assert_eq!(followed.settings, with_driver("image"));
    let problem = followed.problem.unwrap();
    assert!(problem.contains("line 2") && problem.contains("`csi`"), "{problem}");
    machine.answer("user-data", 404, "");
    machine.write("etc/kerf/agent.yaml", "gates: {csiDrivers: 1}");
    let followed = read_policies(&machine).await;
    assert_eq!(followed.settings, AgentSettings::default());
    assert!(followed.problem.unwrap().contains("etc/kerf/agent.yaml"));
    machine.answer("user-data", 503, "");
    assert!(read(machine.root.path(), &machine.imds()).await.is_err(), "it is asked again");
}
