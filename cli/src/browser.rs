//! Opens a URL in a browser.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::settings::Env;

/// Opens a URL in the browser that the environment variable `BROWSER` names, or in that of the
/// system. Returns whether there is one.
pub async fn open(url: &str, env: &Env) -> bool {
    for command in commands(url, env) {
        if let Ok(child) = command.into_child()
            && is_running(child).await
        {
            return true;
        }
    }
    false
}

/// A program with its arguments.
struct Words(Vec<String>);

impl Words {
    fn into_child(self) -> std::io::Result<Child> {
        let Self(words) = self;
        let (program, arguments) = words.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn()
    }
}

/// What to try, in this order.
fn commands(url: &str, env: &Env) -> Vec<Words> {
    let named = env.get("BROWSER").unwrap_or_default();
    let named: Vec<Words> = named.split(':').filter_map(|one| with_url(one, url)).collect();
    if named.is_empty() { of_system(url, env) } else { named }
}

/// A command of `BROWSER`, in which `%s` stands for the URL.
fn with_url(command: &str, url: &str) -> Option<Words> {
    let mut words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() {
        return None;
    }
    if words.iter().any(|word| word.contains("%s")) {
        words = words.iter().map(|word| word.replace("%s", url)).collect();
    } else {
        words.push(url.to_owned());
    }
    Some(Words(words))
}

fn of_system(url: &str, env: &Env) -> Vec<Words> {
    let words = |words: &[&str]| Words(words.iter().map(|&word| word.to_owned()).collect());
    if cfg!(target_os = "macos") {
        return vec![words(&["open", url])];
    }
    if cfg!(windows) {
        return vec![words(&["rundll32", "url.dll,FileProtocolHandler", url])];
    }
    // Without a display, `xdg-open` would start a browser for terminals, in the background.
    match env.get("DISPLAY").or(env.get("WAYLAND_DISPLAY")).is_some() {
        true => vec![words(&["xdg-open", url])],
        false => Vec::new(),
    }
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
