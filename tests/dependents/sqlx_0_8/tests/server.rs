//! The application's tests use the sandbox.

use svc_reference_server::{Server, StartError};

pub async fn server() -> Result<Server, StartError> {
    Server::start().await
}
