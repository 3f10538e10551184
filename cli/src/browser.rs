//! Opens a URL in a browser.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::settings::Env;

/// Opens a URL with the command of the environment variable `BROWSER`, or in the browser of the system.
/// Returns whether there is one.
pub async fn open(url: &str, env: &Env) -> bool {
    let mut words = env
        .get("BROWSER")
        .unwrap_or_else(|| of_system(env))
        .split_whitespace();
    let Some(program) = words.next() else {
        return false;
    };

    let mut command = Command::new(program);
    command.args(words).arg(url);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    match command.spawn() {
        Ok(child) => is_running(child).await,
        Err(_) => false,
    }
}

fn of_system(env: &Env) -> &'static str {
    if cfg!(target_os = "macos") {
        return "open";
    }
    if cfg!(windows) {
        return "rundll32 url.dll,FileProtocolHandler";
    }

    // Without a display, it would start a browser for terminals, in the background.
    let has_display = env.get("DISPLAY").or(env.get("WAYLAND_DISPLAY")).is_some();
    if has_display { "xdg-open" } else { "" }
}

/// How long a program may take to fail.
const FAILS_WITHIN: Duration = Duration::from_secs(2);

/// Whether the program has succeeded, or still runs after a while: some browsers run until their
/// window is closed.
async fn is_running(mut child: Child) -> bool {
    let deadline = Instant::now() + FAILS_WITHIN;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < deadline => sleep(Duration::from_millis(10)).await,
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}
