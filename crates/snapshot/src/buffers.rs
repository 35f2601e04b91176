//! Capacity that is kept free for pods that do not exist yet: CapacityBuffers and ProvisioningRequests, with their virtual pods.

pub(crate) mod buffer;
pub(crate) mod requests;
pub(crate) mod templates;
mod virtual_pods;

use crate::Input;
use crate::pods::admission::Admission;
use crate::pods::records::Records;
use buffer::BufferState;
use requests::RequestState;
use templates::PodSource;
use virtual_pods::VirtualPods;

/// CapacityBuffers and ProvisioningRequests with their virtual pods.
pub(crate) struct HeldCapacity<'a> {
    pub(crate) buffers: Vec<BufferState>,
    pub(crate) requests: Vec<RequestState>,
    pub(crate) pods: Vec<VirtualPods<'a>>,
}

/// Resolves all buffers and requests that Kerf handles, each ordered by name.
pub(crate) fn resolve<'a>(input: &'a Input<'a>, admission: &Admission<'_>, records: &Records) -> HeldCapacity<'a> {
    let source = PodSource { input, admission, records };
    let (buffers, mut pods) = buffer::resolve(&source);
    let (requests, of_requests) = requests::resolve(&source);
    pods.extend(of_requests);
    HeldCapacity { buffers, requests, pods }
}
