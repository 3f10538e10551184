//! From the arguments of a call to a command line. A value never becomes an option, the name of a
//! file, or standard input, except where the table says so.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction};
use serde_json::{Map, Value};

use super::table::{ACTION, AUDIENCE, Action, Argument, EMAIL_FIELDS, From, ROWS, Tool};
use crate::command_spec::Effect;
use crate::failure::Failure;
use crate::settings::{Env, home_directory};

/// The largest file that a call may read.
const MAX_FILE: u64 = 64 << 20;

/// A command line, with what it reads from standard input.
#[derive(Clone, Debug, Default)]
pub struct CommandLine {
    command: Vec<String>,
    options: Vec<String>,
    positionals: Vec<String>,
    pub stdin: Vec<u8>,
}

/// The action of a call, which is removed from its arguments.
pub fn action<'a>(tool: &'a Tool, given: &mut Map<String, Value>) -> Result<&'a Action, Failure> {
    if let [one] = tool.actions.as_slice() {
        return Ok(one);
    }
    let named = given.shift_remove(ACTION).unwrap_or_default();
    tool.actions.iter().find(|action| named == action.name).ok_or_else(|| {
        let names = tool.actions.iter().map(|action| action.name).collect::<Vec<_>>();
        Failure::usage(format!("{ACTION}: not an action of {}", tool.name))
            .hint(format!("use one of {}", names.join(", ")))
    })
}

impl CommandLine {
    /// The command line of an action. `root` is the directory whose files it may read.
    pub fn new(action: &Action, given: &Map<String, Value>, root: &Path) -> Result<Self, Failure> {
        refuse_unknown(action, given)?;
        let (mut options, mut positionals, mut stdin) = (Vec::new(), Vec::new(), Vec::new());
        if action.spec.effect == Effect::Removes {
            options.push("--yes".to_owned());
        }
        for Argument { name, from } in &action.arguments {
            let value = given.get(*name).filter(|value| !value.is_null());
            let Some(arg) = action.arg(name) else {
                stdin = Value::Object(given.clone()).to_string().into_bytes();
                options.push("--body=-".to_owned());
                continue;
            };
            let mut values = texts(name, value)?;
            let is_missing = arg.is_required_set() && values.is_empty();
            if is_missing && !matches!(from, From::Rows | From::Email) {
                return Err(missing(action, name));
            }
            match from {
                From::Value => {
                    values =
                        values.into_iter().map(|it| literal(arg, it)).collect::<Result<_, _>>()?;
                }
                From::File => {
                    let found = values.iter().map(|path| below(root, name, path));
                    values = found.collect::<Result<_, _>>()?;
                }
                From::Rows | From::Stdin | From::Email => {
                    // The people of an audience are in place of rows.
                    let has_audience = !arg.is_required_set() && given.contains_key(AUDIENCE);
                    stdin = match (from, given.get(ROWS), values.as_slice()) {
                        (From::Stdin, _, _) => values.concat().into_bytes(),
                        (_, None, []) if has_audience => continue,
                        (_, Some(rows @ Value::Array(_)), []) if !has_audience => {
                            rows.to_string().into_bytes()
                        }
                        (_, None, [path]) if !has_audience => read(root, name, path)?,
                        _ => return Err(missing(action, &either(action, name))),
                    };
                    values = vec!["-".to_owned()];
                }
            }
            let is_flag = matches!(arg.get_action(), ArgAction::SetTrue);
            for value in values {
                match (arg.get_long(), value.as_str()) {
                    (None, _) => positionals.push(value),
                    (Some(long), "true") if is_flag => options.push(format!("--{long}")),
                    (Some(_), "false") if is_flag => {}
                    (Some(_), _) if is_flag => {
                        return Err(Failure::usage(format!("{name}: not a boolean")));
                    }
                    (Some(long), value) => options.push(format!("--{long}={value}")),
                }
            }
        }
        let command = action.spec.path.split(' ').map(str::to_owned).collect();
        Ok(Self { command, options, positionals, stdin })
    }

    /// The same command with one more option.
    pub fn with(&self, option: &str) -> Self {
        let mut line = self.clone();
        line.options.push(option.to_owned());
        line
    }

    /// The words. After `--`, nothing is an option.
    pub fn words(&self) -> Vec<String> {
        let end = ["--".to_owned()];
        [self.command.as_slice(), &self.options, &end, &self.positionals].concat()
    }
}

/// The directory whose files may be read: none, if it is the home directory or one above it.
pub fn root(env: &Env) -> Result<PathBuf, Failure> {
    let (root, home) = (env.cwd.canonicalize()?, home_directory(env).canonicalize());
    Ok(if home.is_ok_and(|home| home.starts_with(&root)) { PathBuf::new() } else { root })
}

/// The names of which one is given, in place of this one.
pub fn either(action: &Action, name: &str) -> String {
    let has_audience = action.arg(name).is_some_and(|arg| !arg.is_required_set());
    format!("{ROWS} or {name}{}", if has_audience { " or audience" } else { "" })
}

fn missing(action: &Action, name: &str) -> Failure {
    let of = if action.name.is_empty() { "" } else { &format!(" for the action {}", action.name) };
    Failure::usage(format!("{name}: required{of}"))
}

/// The names of the arguments of an action.
pub fn names(action: &Action) -> Vec<&str> {
    let names = action.arguments.iter().flat_map(|it| match it.from {
        From::Email => EMAIL_FIELDS.map(|(field, ..)| field).to_vec(),
        From::Rows => vec![it.name, ROWS],
        _ => vec![it.name],
    });
    names.collect()
}

fn refuse_unknown(action: &Action, given: &Map<String, Value>) -> Result<(), Failure> {
    let known = names(action);
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
    match value.strip_prefix('@') {
        Some(_) if takes == "TEXT" => Ok(value),
        Some(_) if takes.starts_with("TEXT|@FILE") => Ok(format!("@{value}")),
        None if value != "-" => Ok(value),
        _ => Err(Failure::usage(format!("{}: `@` and `-` name no files here", arg.get_id()))
            .hint("give the value itself")),
    }
}

/// The path of a file below the directory, without symbolic links.
fn below(root: &Path, name: &str, path: &str) -> Result<String, Failure> {
    let hint = match root.parent() {
        // Below `/`, there are the files of everybody.
        None => "start svc mcp in the folder of a project: in the home directory and above, it reads no files".to_owned(),
        Some(_) => format!("its directory is {}; hidden files are not read", root.display()),
    };
    let found = root.join(path).canonicalize().ok().filter(|_| root.parent().is_some());
    let is_hidden = |part: &OsStr| part.as_encoded_bytes().starts_with(b".");
    let is_open = |found: &PathBuf| {
        found.is_file() && found.strip_prefix(root).is_ok_and(|it| !it.iter().any(is_hidden))
    };
    let found = found.filter(is_open);
    // Whether another file exists is not told.
    let found = found.and_then(|found| found.into_os_string().into_string().ok());
    found.ok_or_else(|| {
        Failure::input(format!("{name}: not a file below the directory of svc mcp")).hint(hint)
    })
}

fn read(root: &Path, name: &str, path: &str) -> Result<Vec<u8>, Failure> {
    let found = below(root, name, path)?;
    match std::fs::metadata(&found)?.len() > MAX_FILE {
        true => Err(Failure::input(format!("{name}: larger than 64 MiB"))),
        false => Ok(std::fs::read(found)?),
    }
}
