//! `svc sandbox serve` as a separate process that can be killed.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use svc_sdk::EmailClient;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// How long a test waits for the process to start or to exit.
const TIME_LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct ServerProcess {
    child: Child,
    base_url: String,
}

impl ServerProcess {
    /// Starts the server on this data directory and waits until it prints its
    /// addresses.
    pub(crate) async fn start(data: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_svc-under-test"))
            .args(["sandbox", "serve", "--addr", "127.0.0.1:0", "--data"])
            .arg(data)
            .env_clear()
            .env("HOME", data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("svc starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut lines = BufReader::new(stdout).lines();
        let line = tokio::time::timeout(TIME_LIMIT, lines.next_line()).await;
        let line = line
            .expect("svc starts within 60 s")
            .expect("a readable pipe");
        let ready: Value = serde_json::from_str(&line.expect("svc prints its addresses"))
            .expect("the addresses are JSON");
        let base_url = ready["http"].as_str().expect("the base URL").to_owned();
        Self { child, base_url }
    }

    /// A client with the seeded key.
    pub(crate) fn client(&self) -> EmailClient {
        EmailClient::builder(&self.base_url, "mk_test_sandbox")
            .insecure_webhook_urls(true)
            .build()
            .expect("a client")
    }

    /// Kills the process with SIGKILL.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("the process can be killed");
    }

    /// Stops the process with SIGTERM and returns its exit status.
    #[cfg(unix)]
    pub(crate) async fn terminate(mut self) -> std::process::ExitStatus {
        let pid = self.child.id().expect("the process is running").to_string();
        let kill = Command::new("kill").args(["-TERM", &pid]).status().await;
        assert!(kill.expect("kill runs").success());
        let ended = tokio::time::timeout(TIME_LIMIT, self.child.wait()).await;
        ended
            .expect("svc exits within 60 s")
            .expect("an exit status")
    }
}
