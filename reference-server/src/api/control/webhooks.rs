//! `/_sandbox/webhooks`: the webhooks of both services.

use crate::api::framework::ControlCall;
use crate::api::framework::route::Routes;
use crate::control::webhooks::{self as control, Webhook};
use crate::model::error::ApiError;
use crate::store::webhooks;

pub(crate) fn routes(r: &mut Routes) {
    r.tag("Sandbox webhooks");
    r.control(control::LIST, list);
}

pub(crate) async fn list(call: ControlCall) -> Result<Vec<Webhook>, ApiError> {
    call.data.read(|reader, organization| webhooks::list(reader, organization, None)).await
}
