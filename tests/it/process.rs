//! `svc sandbox serve` in a process of its own, which can be killed.

use std::path::Path;
use std::process::Stdio;
#[cfg(unix)]
use std::time::Duration;

use serde_json::Value;
use svc_sdk::EmailClient;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

pub(crate) struct ServerProcess {
    child: Child,
    base_url: String,
}

impl ServerProcess {
    /// Starts it on this data directory and waits for its line.
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
        let line = BufReader::new(stdout).lines().next_line().await.expect("a readable pipe");
        let ready: Value =
            serde_json::from_str(&line.expect("a line when it is ready")).expect("a line of JSON");
        let base_url = ready["http"].as_str().expect("its address").to_owned();
        Self { child, base_url }
    }

    /// A client with the seeded key.
    pub(crate) fn client(&self) -> EmailClient {
        EmailClient::builder(&self.base_url, "mk_test_sandbox")
            .insecure_webhook_urls(true)
            .build()
            .expect("a client")
    }

    /// SIGKILL: the process gets no chance to do anything more.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("the process can be killed");
    }

    /// SIGTERM: gives the status that it ends with.
    #[cfg(unix)]
    pub(crate) async fn terminate(mut self) -> std::process::ExitStatus {
        let pid = self.child.id().expect("it runs").to_string();
        let kill = Command::new("kill").args(["-TERM", &pid]).status().await;
        assert!(kill.expect("kill runs").success());
        let ended = tokio::time::timeout(Duration::from_secs(60), self.child.wait()).await;
        ended.expect("it ends").expect("its status")
    }
}
