//! A command that prints a key, such as `pass show svc/live`: what `email_key_command` and
//! `extraction_key_command` of a profile name.

use std::io::Read as _;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::env::Env;
use super::key::Key;
use crate::failure::Failure;
use crate::input::program::words;

/// How long the command may take.
const LIMIT: Duration = Duration::from_secs(10);

/// A key is much shorter.
const MAX_OUTPUT: u64 = 64 << 10;

/// How often is looked whether a command that has written its output has ended.
const POLL: Duration = Duration::from_millis(5);

/// Runs the command, without a shell, and reads its output as a key. Errors name the `setting` and the
/// program, and show nothing that it wrote.
pub fn run(setting: &str, command: &str, env: &Env) -> Result<Key, Failure> {
    let problem = |problem: String| Failure::input(format!("{setting}: {problem}"));
    let words = words(command).map_err(problem)?;
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| problem("the command is empty".to_owned()))?;
    let failed = |what: String| {
        problem(format!("`{program}` {what}"))
            .code("key_command_failed")
            .hint("run the command in a terminal to see why; it must print the key alone")
    };

    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(env.all())
        .current_dir(&env.cwd)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let spawned = command.spawn();
    let mut child = spawned.map_err(|error| failed(format!("cannot be run: {error}")))?;
    let output = wait(&mut child);
    if output.is_none() {
        end(&mut child);
    }
    let Some(Output { status, text }) = output else {
        return Err(failed(format!("did not end within {} s", LIMIT.as_secs())));
    };
    if !status.success() {
        return Err(failed(format!("failed: {status}")));
    }

    Key::parse(&text, &format!("{setting}: the output of `{program}`"))
}

struct Output {
    status: ExitStatus,
    text: String,
}

/// Waits for the end of a command and of its output. `None` if that takes too long.
fn wait(child: &mut Child) -> Option<Output> {
    let deadline = Instant::now() + LIMIT;
    let stdout = child.stdout.take()?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(read(stdout)));
    let text = receiver.recv_timeout(LIMIT).ok()?;
    while Instant::now() < deadline {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(Output { status, text });
        }
        std::thread::sleep(POLL);
    }

    None
}

/// Kills a command, with the processes that it has started.
fn end(child: &mut Child) {
    #[cfg(unix)]
    let _ = rustix::process::kill_process_group(
        rustix::process::Pid::from_child(child),
        rustix::process::Signal::KILL,
    );
    let _ = child.kill();
    let _ = child.wait();
}

fn read(stdout: ChildStdout) -> String {
    let mut bytes = Vec::new();
    let _ = stdout.take(MAX_OUTPUT).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
