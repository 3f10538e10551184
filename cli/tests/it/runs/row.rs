//! Rows: the command lines to run for a command, and the environment of each.

/// A command and its cases.
pub struct Row {
    pub command: &'static str,
    /// Command lines that run first; `name=line` keeps its output as `$name`.
    pub given: Vec<&'static str>,
    pub cases: Vec<(Situation, Case)>,
    /// The case that the next builder calls change.
    last: usize,
}

/// A situation that every row must cover, either with a run or with the reason why it cannot occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Situation {
    Success,
    WrongUsage,
    NothingSetUp,
    MissingKey,
    MissingScope,
    NotFound,
    ServiceDown,
    /// An additional case.
    Also(&'static str),
}

impl Situation {
    /// The situations that every row must cover.
    pub const ALL: [Self; 7] = [
        Self::Success,
        Self::WrongUsage,
        Self::NothingSetUp,
        Self::MissingKey,
        Self::MissingScope,
        Self::NotFound,
        Self::ServiceDown,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::WrongUsage => "wrong usage",
            Self::NothingSetUp => "nothing set up",
            Self::MissingKey => "missing key",
            Self::MissingScope => "missing scope",
            Self::NotFound => "not found",
            Self::ServiceDown => "service down",
            Self::Also(name) => name,
        }
    }
}

pub enum Case {
    Run(Run),
    /// The reason why the situation cannot occur.
    Never(&'static str),
}

/// A command line to run and its expected exit code.
#[derive(Clone)]
pub struct Run {
    pub line: String,
    pub setup: Setup,
    pub code: i32,
    /// Texts to wait for in the output, and what to do then.
    pub cues: Vec<(&'static str, Act)>,
    /// Number of output lines in the snapshot; all if `None`.
    pub head: Option<usize>,
    pub env: Vec<(&'static str, &'static str)>,
    pub only: Option<Stream>,
    pub columns: u16,
}

/// The usual terminal width of the runs.
const COLUMNS: u16 = 100;
/// A width at which nothing is wrapped, because wrapped ids are not masked.
const WIDE: u16 = 2000;

/// The configuration in the environment of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Setup {
    /// Base URLs and keys of the server.
    Keys,
    /// No configuration.
    Nothing,
    /// Base URLs without keys.
    BaseUrls,
    /// Base URLs, and keys without the required scope.
    OtherScope,
    /// Keys, and base URLs of a closed port.
    Unreachable,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Pipe,
    Terminal,
}

#[derive(Clone, Copy)]
pub enum Act {
    /// Type this text, on a terminal only.
    Type(&'static str),
    /// Run this command line at the same time.
    Run(&'static str),
    /// Send this signal.
    Signal(&'static str),
}

/// The answers to a confirmation.
pub const YES: Act = Act::Type("y\n");
pub const NO: Act = Act::Type("\n");

impl Row {
    /// A command that calls an operation of a service, with the cases that all such commands share.
    pub fn service(command: &'static str, line: &str) -> Self {
        let plain = line.trim_start_matches("--sandbox ");
        let no_retry = format!("{plain} --retries 0");
        Self::new(command, line)
            .with(Situation::NothingSetUp, Run::new(plain, Setup::Nothing, 3))
            .with(Situation::MissingKey, Run::new(plain, Setup::BaseUrls, 3))
            .with(
                Situation::MissingScope,
                Run::new(plain, Setup::OtherScope, 4),
            )
            .with(
                Situation::ServiceDown,
                Run::new(&no_retry, Setup::Unreachable, 8),
            )
            .select_success()
    }

    /// A command of the sandbox's control interface.
    pub fn control(command: &'static str, line: &str) -> Self {
        Self::new(command, line).local("the sandbox needs no configuration and no key, and starts inside the command if none is running")
    }

    /// A command that calls no service, so that it has no failures of one.
    pub fn here(command: &'static str, line: &str) -> Self {
        Self::new(command, line).local("it calls no service")
    }

    fn new(command: &'static str, line: &str) -> Self {
        let success = (
            Situation::Success,
            Case::Run(Run::new(line, Setup::Keys, 0)),
        );
        Self {
            command,
            given: Vec::new(),
            cases: vec![success],
            last: 0,
        }
    }

    fn select_success(mut self) -> Self {
        self.last = 0;
        self
    }

    fn local(mut self, why: &'static str) -> Self {
        use Situation::{MissingKey, MissingScope, NothingSetUp, ServiceDown};
        for situation in [NothingSetUp, MissingKey, MissingScope, ServiceDown] {
            self.cases.push((situation, Case::Never(why)));
        }
        self
    }

    /// Adds a command line that runs first; `name=line` keeps its output.
    pub fn given(mut self, line: &'static str) -> Self {
        self.given.push(line);
        self
    }

    pub fn wrong(self, line: &str) -> Self {
        self.with(Situation::WrongUsage, Run::new(line, Setup::Keys, 2))
    }

    pub fn not_found(self, line: &str) -> Self {
        self.with(Situation::NotFound, Run::new(line, Setup::Keys, 5))
    }

    pub fn never(mut self, situation: Situation, why: &'static str) -> Self {
        self.cases.retain(|(kept, _)| *kept != situation);
        self.cases.push((situation, Case::Never(why)));
        self
    }

    /// Adds a case with its exit code.
    pub fn also(self, name: &'static str, code: i32, line: &str) -> Self {
        self.with(Situation::Also(name), Run::new(line, Setup::Keys, code))
    }

    /// Replaces the case of a situation.
    pub fn with(mut self, situation: Situation, run: Run) -> Self {
        self.cases.retain(|(kept, _)| *kept != situation);
        self.cases.push((situation, Case::Run(run)));
        self.last = self.cases.len() - 1;
        self
    }

    /// Changes the run that was added last.
    fn last(mut self, change: impl FnOnce(&mut Run)) -> Self {
        match self.cases.get_mut(self.last) {
            Some((_, Case::Run(run))) => change(run),
            _ => panic!("`{}`: the last case is not a run", self.command),
        }
        self
    }

    /// Waits for the text in the output, then acts.
    pub fn when(self, text: &'static str, act: Act) -> Self {
        self.last(|run| run.cues.push((text, act)))
    }

    /// Limits the output in the snapshot to this number of lines.
    pub fn head(self, lines: usize) -> Self {
        self.last(|run| run.head = Some(lines))
    }

    pub fn env(self, name: &'static str, value: &'static str) -> Self {
        self.last(|run| run.env.push((name, value)))
    }

    /// Uses a terminal on which nothing is wrapped.
    pub fn wide(self) -> Self {
        self.last(|run| run.columns = WIDE)
    }

    pub fn only(self, stream: Stream) -> Self {
        self.last(|run| run.only = Some(stream))
    }

    pub fn setup(self, setup: Setup) -> Self {
        self.last(|run| run.setup = setup)
    }
}

impl Run {
    pub fn new(line: &str, setup: Setup, code: i32) -> Self {
        let line = line.to_owned();
        Self {
            line,
            setup,
            code,
            cues: Vec::new(),
            head: None,
            env: Vec::new(),
            only: None,
            columns: COLUMNS,
        }
    }
}
