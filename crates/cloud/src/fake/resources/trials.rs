//! An account for trials: it has whatever an EC2NodeClass selects, and its instances survive a restart of its program.

use jiff::Timestamp;

use super::Account;
use crate::calls::{Filter, Image, Instance, LaunchTemplateRequest, Tags};
use crate::fake::filter::AMAZON;
use crate::fake::state::{FakeInstance, FakeState, scramble};

/// Path of the SSM parameters that AWS publishes.
const PUBLIC_PARAMETERS: &str = "/aws/service/";

impl Account<'_> {
    /// Adds running instances that an earlier run of the program had launched. Known instances keep their state.
    pub fn restore(&self, instances: impl IntoIterator<Item = Instance>) {
        let (mut state, now) = self.cloud.at_present();
        for instance in instances {
            let architecture = architecture_of(&state, &instance.instance_type);
            let launched = instance.launched.parse().unwrap_or(now);
            state.machines.entry(instance.id.clone()).or_insert_with(|| running(instance, architecture, launched));
        }
        drop(state);
        self.cloud.announce(true);
    }
}

fn running(instance: Instance, architecture: String, launched: Timestamp) -> FakeInstance {
    FakeInstance {
        instance: Instance { state: "running".to_owned(), ..instance },
        architecture,
        template: LaunchTemplateRequest::default(),
        client_token: String::new(),
        interruption: None,
        rebalance: None,
        launched,
        stopped: None,
        ended: None,
    }
}

fn architecture_of(state: &FakeState, instance_type: &str) -> String {
    state.types.get(instance_type).and_then(|info| info.architectures.first()).cloned().unwrap_or_default()
}

/// Returns what a filter selects by. In an account for trials these are only ids.
pub(in crate::fake) fn selected_by(state: &FakeState, filter: &Filter) -> Filter {
    if state.for_trials { Filter { ids: filter.ids.clone(), ..Filter::default() } } else { filter.clone() }
}

/// Returns the value of an SSM parameter. In an account for trials every public parameter names an image.
pub(in crate::fake) fn parameter(state: &mut FakeState, name: &str) -> Option<String> {
    let known = state.parameters.get(name).cloned();
    if known.is_some() || !state.for_trials || !name.starts_with(PUBLIC_PARAMETERS) {
        return known;
    }
    let image = public_image(name);
    let id = image.id.clone();
    state.images.push(image);
    state.parameters.insert(name.to_owned(), id.clone());
    Some(id)
}

/// Returns the image of a public parameter. The same name gives the same image after a restart.
fn public_image(parameter: &str) -> Image {
    let hash = parameter.bytes().fold(0, |hash, byte| scramble(hash ^ u64::from(byte)));
    Image {
        id: format!("ami-0{hash:016x}"),
        name: parameter.trim_start_matches(PUBLIC_PARAMETERS).replace('/', "-"),
        architecture: if parameter.contains("arm64") { "arm64" } else { "x86_64" }.to_owned(),
        created: "2026-11-01T00:00:00.000Z".to_owned(),
        deprecated: false,
        owner: AMAZON.to_owned(),
        tags: Tags::new(),
    }
}
