//! From the arguments of a call to a command line. A value never becomes an option, the name of a
//! file, or standard input, except where the table says so.

use std::path::Path;

use clap::{Arg, ArgAction};
use serde_json::{Map, Value};

use super::describe::{Ready, ReadyAction};
use super::table::{ACTION, Argument, EMAIL_FIELDS, ROWS};
use crate::command_spec::Effect;
use crate::failure::Failure;

/// The largest file that a call may read.
const MAX_FILE: u64 = 64 << 20;

/// A command line, with what it reads from standard input.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandLine {
    pub args: Vec<String>,
    pub stdin: Vec<u8>,
}

/// The action of a call, which is removed from its arguments.
pub fn action<'a>(
    ready: &'a Ready,
    given: &mut Map<String, Value>,
) -> Result<&'a ReadyAction, Failure> {
    if let [one] = ready.actions.as_slice() {
        return Ok(one);
    }
    let named = given.shift_remove(ACTION);
    let named = named.as_ref().and_then(Value::as_str).unwrap_or_default();
    ready.actions.iter().find(|it| it.action.name == named).ok_or_else(|| {
        let names = ready.actions.iter().map(|it| it.action.name).collect::<Vec<_>>();
        Failure::usage(format!("{ACTION}: not an action of {}", ready.tool.name))
            .hint(format!("use one of {}", names.join(", ")))
    })
}

impl CommandLine {
    /// The command line of an action. `root` is the directory whose files it may read.
    pub fn new(
        ready: &ReadyAction,
        given: &Map<String, Value>,
        root: &Path,
    ) -> Result<Self, Failure> {
        refuse_unknown(ready, given)?;
        let mut line = Self {
            args: ready.action.command.split(' ').map(str::to_owned).collect(),
            stdin: Vec::new(),
        };
        if ready.spec.effect == Effect::Removes {
            line.args.push("--yes".to_owned());
        }
        let mut positionals = Vec::new();
        for argument in ready.action.arguments {
            let name = argument.name();
            let value = given.get(name).filter(|value| !value.is_null());
            let values = match argument {
                Argument::Email => {
                    line.args.push("--body=-".to_owned());
                    line.stdin = Value::Object(given.clone()).to_string().into_bytes();
                    continue;
                }
                Argument::Stdin(_) => {
                    line.stdin = texts(name, value)?.concat().into_bytes();
                    vec!["-".to_owned()]
                }
                Argument::Rows(_) => {
                    line.stdin = match (given.get(ROWS), value) {
                        (Some(rows @ Value::Array(_)), None) => rows.to_string().into_bytes(),
                        (None, Some(Value::String(path))) => read(root, name, path)?,
                        _ => return Err(Failure::usage(format!("give either {ROWS} or {name}"))),
                    };
                    vec!["-".to_owned()]
                }
                Argument::File(_) => {
                    let paths = texts(name, value)?.into_iter();
                    let found = paths.map(|path| below(root, name, &path));
                    found.collect::<Result<_, _>>()?
                }
                Argument::Value(_) => texts(name, value)?,
            };
            let Some(arg) = ready.arg(name) else { continue };
            for value in values {
                let value = match argument {
                    Argument::Value(_) => literal(arg, value)?,
                    _ => value,
                };
                match arg.get_long() {
                    None => positionals.push(value),
                    Some(long) if matches!(arg.get_action(), ArgAction::SetTrue) => {
                        match value.as_str() {
                            "true" => line.args.push(format!("--{long}")),
                            "false" => {}
                            _ => return Err(Failure::usage(format!("{name}: not a boolean"))),
                        }
                    }
                    Some(long) => line.args.push(format!("--{long}={value}")),
                }
            }
        }
        // Nothing after it is an option.
        line.args.push("--".to_owned());
        line.args.extend(positionals);
        Ok(line)
    }

    /// The same command with more options.
    pub fn with(&self, options: &[&str]) -> Self {
        let mut line = self.clone();
        let end = line.args.iter().position(|arg| arg == "--").unwrap_or(line.args.len());
        line.args.splice(end..end, options.iter().map(|option| (*option).to_owned()));
        line
    }
}

fn refuse_unknown(ready: &ReadyAction, given: &Map<String, Value>) -> Result<(), Failure> {
    let arguments = ready.action.arguments;
    let mut known = arguments.iter().map(|argument| argument.name()).collect::<Vec<_>>();
    if arguments.contains(&Argument::Email) {
        known = EMAIL_FIELDS.iter().map(|(field, ..)| *field).collect();
    }
    if arguments.iter().any(|argument| matches!(argument, Argument::Rows(_))) {
        known.push(ROWS);
    }
    match given.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(Failure::usage(format!("`{name}` is not an argument of this tool"))
            .hint(format!("its arguments are: {}", known.join(", ")))),
    }
}

/// The texts of an argument. An object is given as JSON.
fn texts(name: &str, value: Option<&Value>) -> Result<Vec<String>, Failure> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let texts = match value {
        None => Vec::new(),
        Some(Value::Array(values)) => values.iter().map(text).collect(),
        Some(value) => vec![text(value)],
    };
    match texts.iter().any(|text| text.contains('\0')) {
        true => Err(Failure::usage(format!("{name}: contains a NUL character"))),
        false => Ok(texts),
    }
}

/// A value that is read as it is, not as the name of a file or as standard input.
fn literal(arg: &Arg, value: String) -> Result<String, Failure> {
    let takes = arg.get_value_names().and_then(<[_]>::first).map_or("", |name| name.as_str());
    let reads_files = takes.starts_with("TEXT|@FILE");
    if value.starts_with('@') && reads_files {
        return Ok(format!("@{value}"));
    }
    let is_text = takes == "TEXT";
    if value == "-" || (value.starts_with('@') && !is_text) {
        let name = arg.get_id();
        return Err(Failure::usage(format!("{name}: `@` and `-` do not name files here"))
            .hint("give the value itself"));
    }
    Ok(value)
}

/// The path of a file below the directory, without symbolic links.
fn below(root: &Path, name: &str, path: &str) -> Result<String, Failure> {
    let found = root.join(path).canonicalize().ok();
    let found = found.filter(|found| found.starts_with(root) && found.is_file());
    // Whether another file exists is not told.
    let found = found.and_then(|found| found.into_os_string().into_string().ok());
    found.ok_or_else(|| {
        Failure::input(format!("{name}: not a file below the directory of svc mcp"))
            .hint(format!("its directory is {}", root.display()))
    })
}

fn read(root: &Path, name: &str, path: &str) -> Result<Vec<u8>, Failure> {
    let found = below(root, name, path)?;
    let is_large = std::fs::metadata(&found)?.len() > MAX_FILE;
    if is_large {
        return Err(Failure::input(format!("{name}: larger than 64 MiB")));
    }
    Ok(std::fs::read(found)?)
}
