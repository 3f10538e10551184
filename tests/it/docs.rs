//! The book in `docs/`: its links resolve, its shell examples run, and the references in the
//! code name chapters that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
#[cfg(unix)]
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _};
#[cfg(unix)]
use std::net::{TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
#[cfg(unix)]
use std::process::{Command, Stdio};
#[cfg(unix)]
use std::time::{Duration, Instant};

#[test]
fn links_resolve() {
    let mut anchors = Anchors::default();
    let mut broken = Vec::new();
    for file in markdown_files() {
        for link in links(&read(&file)) {
            if link.contains("://") || link.starts_with("mailto:") || link.contains("::") {
                continue;
            }
            if let Err(problem) = anchors.check(&file, &link) {
                broken.push(format!("{}: {link}: {problem}", relative(&file)));
            }
        }
    }

    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = root().join("docs/SUMMARY.md");
    let linked: BTreeSet<PathBuf> = links(&read(&summary))
        .iter()
        .map(|link| resolve(&summary, link))
        .collect();
    let pages: BTreeSet<PathBuf> = files_below(&root().join("docs"), &["md"])
        .into_iter()
        .filter(|page| *page != summary)
        .collect();
    let names = |of: &BTreeSet<PathBuf>, without: &BTreeSet<PathBuf>| {
        of.difference(without)
            .map(|page| relative(page))
            .collect::<Vec<_>>()
    };

    assert_eq!(
        names(&pages, &linked),
        Vec::<String>::new(),
        "pages that SUMMARY.md does not list"
    );
    assert_eq!(
        names(&linked, &pages),
        Vec::<String>::new(),
        "listed pages that do not exist"
    );
}

#[test]
fn references_in_the_code_name_chapters_that_exist() {
    let mut anchors = Anchors::default();
    let mut broken = Vec::new();
    // Its comments and texts hold examples of references.
    let this = root().join("tests/it/docs.rs");
    for file in source_files().into_iter().filter(|file| *file != this) {
        for (number, line) in read(&file).lines().enumerate() {
            for reference in chapter_references(line) {
                if let Err(problem) = anchors.check(&root().join("README.md"), reference) {
                    let file = relative(&file);
                    broken.push(format!("{file}:{}: {reference}: {problem}", number + 1));
                }
            }
        }
    }

    assert!(
        broken.is_empty(),
        "broken references:\n{}",
        broken.join("\n")
    );
}

/// Points that the services leave undocumented have names. The letters and numbers that they
/// once had mean nothing to a reader, and are only names of settings, as in `NUMBER=VALUE`.
#[test]
fn points_are_called_by_their_names() {
    let list_of_points = ["open", "points.md"].join("-");
    let mut found = Vec::new();
    for file in source_files() {
        let checked = file
            .extension()
            .is_some_and(|extension| extension == "rs" || extension == "md");
        if !checked || file.ends_with("CHANGELOG.md") {
            continue;
        }
        for (number, line) in read(&file).lines().enumerate() {
            let separator = |c: char| !c.is_alphanumeric() && c != '_' && c != '=';
            if line.contains(&list_of_points) || line.split(separator).any(is_point_number) {
                found.push(format!(
                    "{}:{}: {}",
                    relative(&file),
                    number + 1,
                    line.trim()
                ));
            }
        }
    }

    assert!(
        found.is_empty(),
        "points without their names:\n{}",
        found.join("\n")
    );
}

#[test]
fn headings_become_anchors_as_in_mdbook() {
    let page = "\
# Create status
## `svc` & the *local* server
## IDs, keys: 100 % of them?
## Fixed {#here}
### Again
### Again
```sh
# a comment
```
";
    let expected = [
        "create-status",
        "svc--the-local-server",
        "ids-keys-100--of-them",
        "here",
        "again",
        "again-1",
    ];
    assert_eq!(anchors_of(page), expected.map(str::to_owned).into());
}

#[test]
fn links_are_found_outside_code_only() {
    let page = "\
> [Two
> lines](a.md#b) and `[code](c.md)` and [`x`](d.md)

```text
[block](e.md)
```
";
    assert_eq!(links(page), ["a.md#b", "d.md"]);
}

/// The book's search looks for words of the text.
#[test]
fn the_search_finds_what_people_look_for() {
    let book = files_below(&root().join("docs"), &["md"]);
    let book: String = book
        .iter()
        .map(|page| prose(&read(page)).to_lowercase())
        .collect();
    for word in [
        "docker",
        "kubernetes",
        "mailpit",
        "mailhog",
        "node",
        "pytest",
        "python",
        "smtp",
        "vitest",
    ] {
        assert!(words(&book).any(|found| found == word), "{word}");
    }
}

/// The blocks of the guides are parts of the applications in `examples/`, which `.ci/applications` tests.
#[test]
fn guides_show_parts_of_the_examples() {
    let guides = [
        ("python", "python", "py"),
        ("node", "ts", "ts"),
        ("go", "go", "go"),
    ];
    let mut unknown = Vec::new();
    for (page, language, extension) in guides {
        let files = files_below(&root().join("examples"), &[extension]);
        let sources: Vec<String> = files.iter().map(|file| read(file)).collect();
        let blocks = blocks_in(
            &read(&root().join(format!("docs/guides/{page}.md"))),
            language,
        );
        assert!(!blocks.is_empty(), "{page}.md has no block in {language}");
        let is_unknown = |block: &String| !sources.iter().any(|source| source.contains(block));
        unknown.extend(blocks.into_iter().filter(is_unknown));
    }

    assert!(
        unknown.is_empty(),
        "not in examples/:\n{}",
        unknown.join("\n")
    );
}

/// The crates are not published, so a manifest names a clone of this repository in `../svc`.
#[test]
fn manifests_in_the_guides_name_crates_of_this_repository() {
    let mut wrong = Vec::new();
    for page in files_below(&root().join("docs"), &["md"]) {
        let manifests = blocks_in(&read(&page), "toml");
        let manifests = manifests
            .iter()
            .filter_map(|block| block.parse::<toml::Table>().ok());
        for (section, table) in manifests.flatten() {
            let Some(table) = table
                .as_table()
                .filter(|_| section.ends_with("dependencies"))
            else {
                continue;
            };
            for (name, dependency) in table.iter().filter(|(name, _)| name.starts_with("svc-")) {
                if !is_in_this_repository(name, dependency) {
                    wrong.push(format!("{}: {name} = {dependency}", relative(&page)));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn is_in_this_repository(name: &str, dependency: &toml::Value) -> bool {
    let path = dependency
        .get("path")
        .and_then(|path| path.as_str()?.strip_prefix("../svc/"));
    let Some(folder) = path
        .map(|path| root().join(path))
        .filter(|folder| folder.is_dir())
    else {
        return false;
    };

    let manifest: toml::Table = read(&folder.join("Cargo.toml"))
        .parse()
        .expect("a manifest");
    let wanted = dependency.get("features").and_then(toml::Value::as_array);
    let has = |feature: &toml::Value| manifest["features"].get(feature.as_str()?);
    manifest["package"]["name"].as_str() == Some(name)
        && wanted
            .into_iter()
            .flatten()
            .all(|feature| has(feature).is_some())
}

/// Runs the `sh` and `console` blocks of each page, one page after the other in a thread, in an
/// empty home directory with `svc` on the path.
#[cfg(unix)]
#[test]
fn shell_examples_run() {
    // A newcomer needs no curl to build the project.
    let has_curl = Command::new("curl").arg("--version").output().is_ok();

    let mut scripts: Vec<(String, String)> = Vec::new();
    for page in files_below(&root().join("docs"), &["md"]) {
        let commands = page_commands(&read(&page));
        let uses_curl = commands.iter().any(|command| command.starts_with("curl "));
        if uses_curl && !has_curl {
            println!("skipped without curl: {}", relative(&page));
        } else if !commands.is_empty() {
            scripts.push((relative(&page), script(&commands)));
        }
    }

    // Of the commands in the project's README those that end by themselves and need no build.
    let readme = blocks_in(&read(&root().join("README.md")), "sh").concat();
    let mut readme = commands(&readme);
    readme.retain(|line| {
        let words = line.split('#').next().unwrap_or_default().trim_end();
        words.starts_with("svc ") && !words.ends_with('&') && !runs_until_interrupted(words)
    });
    scripts.push(("README.md".to_owned(), script(&readme)));
    run_all(&scripts);
}

/// The commands that the text names in passing exist, with their options.
#[cfg(unix)]
#[test]
fn commands_in_the_text_exist() {
    let mut scripts: Vec<(String, String)> = Vec::new();
    for page in markdown_files() {
        let mut checks = Vec::new();
        for span in code_spans(&read(&page)) {
            if span.starts_with("svc ") && !span.contains('<') {
                checks.push(names_exist(&span));
            }
        }
        if !checks.is_empty() {
            scripts.push((relative(&page), script(&checks)));
        }
    }
    run_all(&scripts);
}

/// A command that fails if another has an unknown subcommand or option. What stands for a value may
/// be no valid one.
#[cfg(unix)]
fn names_exist(command: &str) -> String {
    let own = command.split(" -- ").next().unwrap_or_default();
    let is_capital =
        |word: &str| word.contains(char::is_uppercase) && !word.contains(char::is_lowercase);
    let is_placeholder = |word: &&str| word.contains('…') || is_capital(word);
    let words: Vec<&str> = own
        .split(' ')
        .filter(|word| !is_placeholder(word))
        .collect();
    let words = words.join(" ");
    format!(
        "{words} --help > help.txt 2> error.txt || \
         ! grep -e 'unexpected argument' -e 'unrecognized subcommand' error.txt >&2 || exit 1"
    )
}

/// Runs the script of each page, four at a time.
#[cfg(unix)]
fn run_all(scripts: &[(String, String)]) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let failures = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some((page, script)) = scripts.get(index) else {
                        return;
                    };
                    if let Err(problem) = run(script) {
                        failures
                            .lock()
                            .expect("no thread panics")
                            .push(format!("{page}: {problem}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no thread panics");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The commands of the `sh` and `console` blocks of a page, as they run in a test.
#[cfg(unix)]
fn page_commands(page: &str) -> Vec<String> {
    let mut shown = Vec::new();
    each_line(page, |line, block| {
        let Some(block) = block else {
            return;
        };
        match block.language {
            "sh" => shown.push(line.to_owned()),
            "console" => shown.push(typed(line, block.options)),
            _ => {}
        }
    });

    // Servers and receivers of other tests run on this machine, too.
    let ports = other_ports();
    let mut run = Vec::new();
    for mut command in commands(&shown.join("\n")) {
        for (named, other) in &ports {
            command = command.replace(&format!(":{named}"), &format!(":{other}"));
        }

        if runs_until_interrupted(&command) {
            run.extend(in_background(&command, &ports));
        } else {
            run.push(command);
        }
    }

    run
}

/// What a person types of a line of a `console` block: the command after `$`, or its continuation.
///
/// A block that says `no_run` needs a live service, a container or a release. Of it, only the
/// syntax of `svc` is checked.
#[cfg(unix)]
fn typed(line: &str, options: &str) -> String {
    let Some(command) = line.strip_prefix("$ ") else {
        let is_continuation = line.starts_with("    -");
        return if is_continuation {
            line.to_owned()
        } else {
            String::new()
        };
    };
    if !options.contains("no_run") {
        return live_as_sandbox(command);
    }

    let is_assignment = |word: &&str| word.contains('=') && !word.starts_with('-');
    let program = command.split(' ').find(|word| !is_assignment(word));
    if program != Some("svc") {
        return String::new();
    }

    // Neither what follows a redirection nor a comment is an argument.
    let command = command.split(" > ").next().unwrap_or_default();
    let command = command.split("   #").next().unwrap_or_default();
    format!("(set +u; {command} --help > help.txt)")
}

/// A live service and its domain are those of the sandbox in a test.
#[cfg(unix)]
fn live_as_sandbox(command: &str) -> String {
    command
        .replace("https://mail.example", "http://127.0.0.1:4080")
        .replace("hello@shop.example", "hello@sandbox.test")
}

/// Ports in place of those that the book names: of the sandbox, of its SMTP, and of an application,
/// which accepts every webhook.
#[cfg(unix)]
fn other_ports() -> BTreeMap<u16, u16> {
    let mut ports = BTreeMap::new();
    for shown in [4080, 1025, 3000] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        ports.insert(shown, address.port());
        if shown == 3000 {
            std::thread::spawn(move || {
                for connection in listener.incoming() {
                    accept_webhook(&connection.expect("a connection"));
                }
            });
        }
    }
    ports
}

/// Reads one request and responds that it was handled.
#[cfg(unix)]
fn accept_webhook(mut connection: &TcpStream) {
    let mut request = BufReader::new(connection);
    let mut length = 0;
    let mut line = String::new();
    while request.read_line(&mut line).is_ok_and(|read| read > 2) {
        let header = line.to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        line.clear();
    }

    let mut body = vec![0; length];
    // A client that hangs up is no matter of the application's.
    if request.read_exact(&mut body).is_ok() {
        let response = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
        let _ = connection.write_all(response);
    }
}

/// Whether a command is `svc sandbox serve` or `svc listen`, which end with Ctrl-C.
#[cfg(unix)]
fn runs_until_interrupted(command: &str) -> bool {
    let serves = command.contains(" sandbox serve");
    let listens = command.contains(" listen ") && !command.contains("--print-secret");
    (serves || listens) && !command.contains("&") && !command.contains("--help")
}

/// Starts a command, as in another terminal, and waits until it has said that it is ready. Only one
/// server runs on a data directory.
#[cfg(unix)]
fn in_background(command: &str, ports: &BTreeMap<u16, u16>) -> Vec<String> {
    let mut command = command.to_owned();
    if command.contains(" sandbox serve") {
        for (option, named) in [("--addr", 4080), ("--smtp", 1025)] {
            if !command.contains(option) {
                command.push_str(&format!(" {option} 127.0.0.1:{}", ports[&named]));
            }
        }
    }

    let is_ready = "[ -s ready.txt ]";
    vec![
        "svc sandbox stop 2> stop.txt || true".to_owned(),
        "rm -f ready.txt".to_owned(),
        format!("{command} < terminal > ready.txt 2>&1 & background=\"$background $!\""),
        format!("for i in $(seq 300); do {is_ready} && break; sleep 0.1; done; {is_ready}"),
    ]
}

/// One shell script from the commands of a page. Each has to succeed, or to end with the code
/// that a comment such as `# exits 3` names.
#[cfg(unix)]
fn script(commands: &[String]) -> String {
    // A server in the background must not outlive a script that fails. Nothing is typed in its
    // terminal, which stays open.
    let mut script = "set -eu\n\
        background=\n\
        trap 'kill $background ${!:-} 2>/dev/null || true' EXIT\n\
        mkfifo terminal; exec 9<> terminal\n"
        .to_owned();
    for command in commands {
        let code = command
            .rsplit_once("# exits ")
            .and_then(|(_, code)| code.trim().parse::<u8>().ok());
        match code {
            None => script.push_str(&format!("{command}\n")),
            Some(code) => script.push_str(&format!(
                "code=0\n{{ {command}\n}} || code=$?\n\
                 [ $code -eq {code} ] || {{ echo \"exits $code instead of {code}:\" >&2; exit 99; }}\n"
            )),
        }
    }
    script
}

/// The commands of a block, with continued lines joined.
#[cfg(unix)]
fn commands(block: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut command = String::new();
    for line in block.lines() {
        command.push_str(line);
        if command.ends_with('\\') {
            command.push('\n');
        } else if !command.trim().is_empty() {
            commands.push(std::mem::take(&mut command));
        }
    }
    commands
}

#[cfg(unix)]
fn run(script: &str) -> Result<(), String> {
    // Only their owner can use them, whatever the umask.
    let mut home = tempfile::Builder::new();
    home.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let home = home.tempdir().expect("a directory");
    let bin = home.path().join("bin");
    let work = home.path().join("work");
    for folder in [&bin, &work] {
        let mut private = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut private, 0o700)
            .create(folder)
            .expect("a directory");
    }

    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_svc-under-test"), bin.join("svc"))
        .expect("a link");
    stand_ins(&bin, &work);
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
    let (log, written) = tempfile::tempfile()
        .and_then(|log| Ok((log.try_clone()?, log)))
        .expect("a file");
    let mut shell = Command::new("sh")
        // Each command is printed, so that a failure shows which one it was.
        .args(["-x", "-c", script])
        .current_dir(&work)
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", format!("{}:{path}", bin.display()))
        .stdin(fs::File::open(work.join("key.txt")).expect("the key"))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("sh starts");
    let deadline = Instant::now() + TIMEOUT;
    let status = loop {
        if let Some(status) = shell.try_wait().expect("sh is our child") {
            break Some(status);
        }
        if Instant::now() > deadline {
            shell
                .kill()
                .and_then(|()| shell.wait())
                .expect("sh can be ended");
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    if status.is_some_and(|status| status.success()) {
        return Ok(());
    }

    let ended = status.map_or_else(
        || format!("not done after {TIMEOUT:?}"),
        |status| status.to_string(),
    );
    let mut log = written;
    let mut text = String::new();
    log.rewind()
        .and_then(|()| log.read_to_string(&mut text))
        .expect("the log is text");
    let lines: Vec<&str> = text.lines().collect();
    Err(format!(
        "{ended}\n{}",
        lines[lines.len().saturating_sub(4)..].join("\n")
    ))
}

/// What the commands of the book expect beside `svc`.
#[cfg(unix)]
fn stand_ins(bin: &Path, work: &Path) {
    // A program that the guide to webhooks builds and starts. `svc listen` goes on without it.
    let cargo = bin.join("cargo");
    fs::write(&cargo, "#!/bin/sh\n").expect("written");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&cargo, executable).expect("an executable");

    // `svc login` reads the key from standard input.
    fs::write(work.join("key.txt"), "mk_test_sandbox\n").expect("written");
    let message = "Subject: Hi\n\nYour link: https://shop.test/login\n";
    fs::write(work.join("message.eml"), message).expect("written");
    fs::write(work.join("dialect.toml"), "list-items = \"data\"\n").expect("written");
}

/// For the commands of one page.
#[cfg(unix)]
const TIMEOUT: Duration = Duration::from_secs(60);

/// The anchors of every page that a link led to.
#[derive(Default)]
struct Anchors(BTreeMap<PathBuf, BTreeSet<String>>);

impl Anchors {
    /// Whether a link in a file leads to a file, and to a heading in it.
    fn check(&mut self, from: &Path, link: &str) -> Result<(), String> {
        let target = resolve(from, link);
        if !target.exists() {
            return Err("no such file".to_owned());
        }
        let Some((_, anchor)) = link.split_once('#') else {
            return Ok(());
        };
        if target.extension().is_none_or(|extension| extension != "md") {
            return Err("an anchor in a file that is not Markdown".to_owned());
        }

        let anchors = self
            .0
            .entry(target)
            .or_insert_with_key(|page| anchors_of(&read(page)));
        if anchors.contains(anchor) {
            Ok(())
        } else {
            Err("no such heading".to_owned())
        }
    }
}

/// The file of a link, without its anchor.
fn resolve(from: &Path, link: &str) -> PathBuf {
    let path = link.split('#').next().unwrap_or_default();
    let joined = match path {
        "" => from.to_owned(),
        _ => from.parent().unwrap_or(from).join(path),
    };
    // `canonicalize` would follow links and needs the file to exist.
    let mut resolved = PathBuf::new();
    for component in joined.components() {
        match component {
            Component::ParentDir => {
                resolved.pop();
            }
            Component::CurDir => {}
            other => resolved.push(other),
        }
    }
    resolved
}

/// The anchors of a page's headings, by the rules of mdBook.
fn anchors_of(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in prose(text).lines() {
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        let Some(title) = line.get(level..).and_then(|rest| rest.strip_prefix(' ')) else {
            continue;
        };
        if !(1..=6).contains(&level) {
            continue;
        }
        let title = title.trim();
        if let Some((_, id)) = title
            .strip_suffix('}')
            .and_then(|title| title.rsplit_once("{#"))
        {
            anchors.insert(id.to_owned());
            continue;
        }
        let slug: String = title
            .chars()
            .filter_map(|c| match c {
                c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c.to_ascii_lowercase()),
                c if c.is_whitespace() => Some('-'),
                _ => None,
            })
            .collect();
        let count = counts.entry(slug.clone()).or_default();
        anchors.insert(if *count == 0 {
            slug
        } else {
            format!("{slug}-{count}")
        });
        *count += 1;
    }
    anchors
}

/// The targets of a page's links, outside of code.
fn links(text: &str) -> Vec<String> {
    let mut flat = String::new();
    let mut in_code = false;
    for c in prose(text).chars() {
        // An inline code span is one word here; it may be the text of a link.
        in_code ^= c == '`';
        flat.push(if in_code && c != '\n' { 'x' } else { c });
    }

    let mut links = Vec::new();
    let mut rest = flat.as_str();
    while let Some((_, after)) = rest.split_once("](") {
        let Some((link, tail)) = after.split_once(')') else {
            break;
        };
        links.push(link.split_whitespace().collect());
        rest = tail;
    }

    links
}

/// The inline code of a page.
#[cfg(unix)]
fn code_spans(text: &str) -> BTreeSet<String> {
    let prose = prose(text);
    let spans = prose.split('`').skip(1).step_by(2);
    spans.map(|span| span.replace('\n', " ")).collect()
}

/// A page without its code blocks and without the marks of its quotations.
fn prose(text: &str) -> String {
    let mut prose = String::new();
    each_line(text, |line, block| {
        if block.is_none() {
            prose.push_str(line.strip_prefix('>').unwrap_or(line));
            prose.push('\n');
        }
    });
    prose
}

/// The text of each block of a page in a language.
fn blocks_in(text: &str, wanted: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    each_line(text, |line, block| {
        if let Some(Block {
            language, is_first, ..
        }) = block
            && language == wanted
        {
            if is_first {
                blocks.push(String::new());
            }
            if let Some(last) = blocks.last_mut() {
                last.push_str(line);
                last.push('\n');
            }
        }
    });
    blocks
}

struct Block<'a> {
    language: &'a str,
    /// What follows the language, as `no_run`.
    #[cfg_attr(not(unix), expect(dead_code, reason = "shell examples run on Unix"))]
    options: &'a str,
    is_first: bool,
}

/// Calls `see` with every line but the fences, and with the code block that it is in.
fn each_line<'a>(text: &'a str, mut see: impl FnMut(&'a str, Option<Block<'a>>)) {
    let mut info = None;
    let mut is_first = false;
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), info) {
            (Some(opening), None) => {
                info = Some(opening);
                is_first = true;
            }
            (Some(_), Some(_)) => info = None,
            (None, _) => {
                let block = info.map(|info| {
                    let (language, options) = info.split_once([',', ' ']).unwrap_or((info, ""));
                    Block {
                        language,
                        options,
                        is_first,
                    }
                });
                see(line, block);
                is_first = false;
            }
        }
    }
}

/// References such as `docs/email-service/README.md#batch` in a line of a source file.
fn chapter_references(line: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '#');
    let mut found = Vec::new();
    for (start, _) in line.match_indices("docs/") {
        let before = &line[..start];
        let is_whole = before.ends_with("../") || !before.ends_with(is_part);
        let reference = line[start..]
            .split(|c| !is_part(c))
            .next()
            .unwrap_or_default();
        let Some((page, rest)) = reference.split_once(".md") else {
            continue;
        };
        let end = match rest.strip_prefix('#') {
            Some(anchor) => {
                let is_anchor = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
                let anchor = anchor.split(|c| !is_anchor(c)).next().unwrap_or_default();
                page.len() + ".md#".len() + anchor.len()
            }
            None => page.len() + ".md".len(),
        };
        if is_whole {
            found.push(&reference[..end]);
        }
    }
    found
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// One of three letters, and a number of one or two digits.
fn is_point_number(word: &str) -> bool {
    let number = word.strip_prefix(['B', 'E', 'X']).unwrap_or_default();
    (1..=2).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// The book, and the other Markdown files for people.
fn markdown_files() -> Vec<PathBuf> {
    let book = root().join("docs");
    let others = source_files().into_iter().filter(|file| {
        let name = file.file_name().unwrap_or_default();
        [
            "README.md",
            "ARCHITECTURE.md",
            "CHANGELOG.md",
            "CONTRIBUTING.md",
        ]
        .iter()
        .any(|other| name == *other)
    });
    let all = files_below(&book, &["md"]).into_iter().chain(others);
    all.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Files of the repository that people write.
fn source_files() -> Vec<PathBuf> {
    let mut files = files_below(root(), &["rs", "md", "toml", "sql"]);
    let ci = root().join(".ci");
    files.extend(
        fs::read_dir(ci)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path()),
    );
    files.retain(|file| file.is_file());
    files
}

fn files_below(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if path.is_dir() {
            if !["target", "corpus", "node_modules"].contains(&name) && !name.starts_with('.') {
                found.extend(files_below(&path, extensions));
            }
        } else if extensions
            .iter()
            .any(|extension| path.extension().is_some_and(|e| e == *extension))
        {
            found.push(path);
        }
    }

    found.sort();
    found
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", relative(file)))
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .display()
        .to_string()
}

pub(crate) fn root() -> &'static Path {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("tests/ lies in the workspace")
}
