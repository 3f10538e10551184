//! The server as a whole: its health, whether it is ready, leases that keep it running, and its reset.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::Response;
use svc_sdk::Service;
use tokio::time::interval;

use crate::app::App;
use crate::http::ControlCall;
use crate::http::response::content;
use crate::jobs::Command;
use crate::model::{Code, Failure, Result};
use crate::sandbox::sandbox_wire::{Health, HealthAddresses, Ready, Reset, RetryDelays};
use crate::seeds::seed_rules;
use crate::store::{NO_ORGANIZATION, meta};
use crate::webhooks::webhook_rules;

/// Returns an error if the server is stopping. It listens on all of its addresses before it serves.
fn check_ready(app: &App) -> Result<()> {
    if app.stop.is_requested() {
        Err(Failure::new(Code::Unavailable, "the server is stopping"))
    } else {
        Ok(())
    }
}

pub(crate) async fn get(call: ControlCall) -> Result<Health> {
    let app = &call.app;
    check_ready(app)?;
    Ok(Health {
        status: "ok".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        now: app.clock.now().into(),
        addresses: HealthAddresses {
            http: Some(app.settings.base_url(app.addresses.http)),
            smtp: app.addresses.smtp,
            dns: Some(app.addresses.dns),
        },
        dialect: app.settings.dialect.clone(),
        retry_delays_ms: RetryDelays {
            email: webhook_rules::schedule(Service::Email).to_vec(),
            extraction: webhook_rules::schedule(Service::Extraction).to_vec(),
        },
        set_aside: app.set_aside.load(Ordering::Relaxed),
    })
}

/// The server is ready if it listens, can read the database and is not stopping.
pub(crate) async fn ready(call: ControlCall) -> Result<Ready> {
    check_ready(&call.app)?;
    call.app.store.read(meta::check).await?;
    Ok(Ready {
        status: "ready".to_owned(),
    })
}

/// The interval of the line feeds, which detect a client that is gone.
const HEARTBEAT: Duration = Duration::from_secs(1);

pub(crate) async fn lease(call: ControlCall) -> Result<Response<Body>> {
    let app = &call.app;
    let lease = app
        .activity
        .lease(&app.stop)
        .ok_or_else(|| Failure::new(Code::Unavailable, "the server is stopping"))?;
    let stop = Arc::clone(&app.stop);
    let state = (lease, stop, interval(HEARTBEAT));
    let heartbeats = stream::unfold(state, |(lease, stop, mut interval)| async move {
        tokio::select! {
            _ = interval.tick() => {}
            () = stop.requested() => return None,
        }
        let heartbeat = Bytes::from_static(b"\n");
        Some((Ok::<_, Infallible>(heartbeat), (lease, stop, interval)))
    });
    Ok(content("text/plain", Body::from_stream(heartbeats)))
}

pub(crate) async fn reset(call: ControlCall<Reset>) -> Result<()> {
    let organization = call.organization;
    let app = Arc::clone(&call.app);
    // The reset is completed even if the client disconnects.
    let done = tokio::spawn(async move {
        let _active = app.activity.request();
        let seeded = Arc::clone(&app);
        let written = app.store.write(move |tx| match organization {
            NO_ORGANIZATION => seed_rules::reset_server(tx, &seeded),
            organization => seed_rules::reset_organization(tx, &seeded, organization),
        });
        written.await?;

        // The engine aborts the work in progress for deleted data. It alone moves the clock, so that an
        // advance in progress cannot move it again afterwards.
        let command = match organization {
            NO_ORGANIZATION => Command::Restart,
            _ => Command::Reload,
        };
        app.engine.send(command).await.map(drop)
    });
    done.await
        .unwrap_or_else(|error| Err(Failure::internal(error)))
}
