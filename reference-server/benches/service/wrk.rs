//! Generates load with `wrk` (<https://github.com/wg/wrk>).

use std::fmt;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

const CONNECTIONS: u32 = 16;

/// Results of `wrk`.
pub(crate) struct Load {
    pub(crate) requests_per_second: f64,
    p50: String,
    p99: String,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p50 {}, p99 {}", self.p50, self.p99)
    }
}

pub(crate) fn version() -> String {
    let Ok(output) = Command::new("wrk").arg("--version").output() else {
        return "wrk is not installed (apt-get install wrk)".to_owned();
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let name = text.split(" [").next().unwrap_or_default().trim();
    format!("{name}: wrk -t1 -c{CONNECTIONS} --latency")
}

/// Posts the same body over 16 connections for the given time. Panics if any response
/// is not 2xx.
pub(crate) fn post(addr: SocketAddr, path: &str, body: &str, time: Duration) -> Load {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("post.lua");
    assert!(!body.contains("]==]"), "the body would end the Lua string");
    let text = format!(
        "wrk.method = \"POST\"\nwrk.body = [==[{body}]==]\n\
         wrk.headers[\"Authorization\"] = \"Bearer mk_test_sandbox\"\n\
         wrk.headers[\"Content-Type\"] = \"application/json\"\n"
    );
    std::fs::write(&script, text).unwrap();
    let output = Command::new("wrk")
        .args(["-t1", "--latency", "--timeout", "30s"])
        .arg(format!("-c{CONNECTIONS}"))
        .arg(format!("-d{}s", time.as_secs()))
        .arg("-s")
        .arg(script)
        .arg(format!("http://{addr}{path}"))
        .output()
        .unwrap();
    let output_text = String::from_utf8(output.stdout).unwrap();
    assert!(
        !output_text.contains("Non-2xx") && !output_text.contains("Socket errors"),
        "{output_text}"
    );
    let after = |name: &str| {
        let rest = output_text
            .split_once(name)
            .unwrap_or_else(|| panic!("no {name} in {output_text}"))
            .1;
        rest.split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned()
    };

    Load {
        requests_per_second: after("Requests/sec:").parse().unwrap(),
        p50: after(" 50%"),
        p99: after(" 99%"),
    }
}
