//! `/_sandbox/webhooks`: the webhooks of both services.

use crate::api::framework::ControlCall;
use crate::control::webhooks::Webhook;
use crate::model::error::ApiError;
use crate::store::webhooks;

pub(crate) async fn list(call: ControlCall) -> Result<Vec<Webhook>, ApiError> {
    call.data.read(|reader, organization| webhooks::list(reader, organization, None)).await
}
