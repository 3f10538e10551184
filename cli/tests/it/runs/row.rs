//! The table's language: what is tried with a leaf, in which surroundings.

/// A leaf and everything that is tried with it.
pub struct Row {
    pub leaf: &'static str,
    /// Command lines that come first; `name=line` keeps what it prints as `$name`.
    pub given: Vec<&'static str>,
    pub cases: Vec<(Situation, Case)>,
    /// Which of them the next words are about.
    last: usize,
}

/// Every situation that a leaf can be in; a leaf says of each what happens, or
/// why it cannot come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Situation {
    Success,
    WrongUsage,
    NothingSetUp,
    MissingKey,
    MissingScope,
    NotFound,
    ServiceDown,
    /// Worth a look besides.
    Also(&'static str),
}

impl Situation {
    /// What no leaf may be silent about.
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
    /// Why it cannot come about.
    Never(&'static str),
}

/// A command line to run, and what to expect of it.
#[derive(Clone)]
pub struct Run {
    pub line: String,
    pub around: Around,
    pub code: i32,
    /// Texts to wait for, and what to do when they have come.
    pub cues: Vec<(&'static str, Act)>,
    /// How many lines are shown of what is a document.
    pub head: Option<usize>,
    pub env: Vec<(&'static str, &'static str)>,
    pub only: Option<Stream>,
    pub columns: u16,
}

/// As wide as most terminals are or can be made.
const COLUMNS: u16 = 100;
/// So wide that nothing is wrapped: ids inside of long texts are masked only whole.
const WIDE: u16 = 2000;

/// What the command finds around it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Around {
    /// Addresses and keys of the server.
    Keys,
    /// Nothing: an empty home directory.
    Nothing,
    /// Addresses, no keys.
    Addresses,
    /// Addresses, and keys that may do something else.
    OtherScope,
    /// Keys, and addresses where nobody answers.
    Nobody,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Pipe,
    Terminal,
}

#[derive(Clone, Copy)]
pub enum Act {
    /// Type this, where a terminal is.
    Type(&'static str),
    /// Run this command line beside it.
    Beside(&'static str),
    /// Send the signal.
    Signal(&'static str),
}

/// The answers to a question.
pub const YES: Act = Act::Type("y\n");
pub const NO: Act = Act::Type("\n");

impl Row {
    /// A leaf that calls an operation of a service: the line succeeds, and meets
    /// every trouble that does not depend on the leaf.
    pub fn service(leaf: &'static str, line: &str) -> Self {
        let plain = line.trim_start_matches("--sandbox ");
        let no_retry = format!("{plain} --retries 0");
        Self::new(leaf, line)
            .with(Situation::NothingSetUp, Run::new(plain, Around::Nothing, 3))
            .with(Situation::MissingKey, Run::new(plain, Around::Addresses, 3))
            .with(Situation::MissingScope, Run::new(plain, Around::OtherScope, 4))
            .with(Situation::ServiceDown, Run::new(&no_retry, Around::Nobody, 8))
            .about_success()
    }

    /// A leaf of the local server's control interface.
    pub fn control(leaf: &'static str, line: &str) -> Self {
        Self::new(leaf, line).local("the local server needs no set-up, asks for no key, and runs inside the command where none is found")
    }

    /// A leaf that calls no service, so that no trouble with one comes about.
    pub fn here(leaf: &'static str, line: &str) -> Self {
        Self::new(leaf, line).local("it calls no service")
    }

    fn new(leaf: &'static str, line: &str) -> Self {
        let success = (Situation::Success, Case::Run(Run::new(line, Around::Keys, 0)));
        Self { leaf, given: Vec::new(), cases: vec![success], last: 0 }
    }

    fn about_success(mut self) -> Self {
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

    /// A command line that comes before each run; `name=line` keeps what it prints.
    pub fn given(mut self, line: &'static str) -> Self {
        self.given.push(line);
        self
    }

    pub fn wrong(self, line: &str) -> Self {
        self.with(Situation::WrongUsage, Run::new(line, Around::Keys, 2))
    }

    pub fn not_found(self, line: &str) -> Self {
        self.with(Situation::NotFound, Run::new(line, Around::Keys, 5))
    }

    pub fn never(mut self, situation: Situation, why: &'static str) -> Self {
        self.cases.retain(|(kept, _)| *kept != situation);
        self.cases.push((situation, Case::Never(why)));
        self
    }

    /// Something else that is worth a look, with its exit code.
    pub fn also(self, name: &'static str, code: i32, line: &str) -> Self {
        self.with(Situation::Also(name), Run::new(line, Around::Keys, code))
    }

    /// Replaces what happens in a situation.
    pub fn with(mut self, situation: Situation, run: Run) -> Self {
        self.cases.retain(|(kept, _)| *kept != situation);
        self.cases.push((situation, Case::Run(run)));
        self.last = self.cases.len() - 1;
        self
    }

    /// Changes the run that was described last.
    fn last(mut self, change: impl FnOnce(&mut Run)) -> Self {
        match self.cases.get_mut(self.last) {
            Some((_, Case::Run(run))) => change(run),
            _ => panic!("`{}`: nothing runs there", self.leaf),
        }
        self
    }

    /// When this text comes, do that.
    pub fn when(self, text: &'static str, act: Act) -> Self {
        self.last(|run| run.cues.push((text, act)))
    }

    /// Only so many lines of it are shown.
    pub fn head(self, lines: usize) -> Self {
        self.last(|run| run.head = Some(lines))
    }

    pub fn env(self, name: &'static str, value: &'static str) -> Self {
        self.last(|run| run.env.push((name, value)))
    }

    /// On a terminal that is wide enough for anything.
    pub fn wide(self) -> Self {
        self.last(|run| run.columns = WIDE)
    }

    pub fn only(self, stream: Stream) -> Self {
        self.last(|run| run.only = Some(stream))
    }

    pub fn around(self, around: Around) -> Self {
        self.last(|run| run.around = around)
    }
}

impl Run {
    pub fn new(line: &str, around: Around, code: i32) -> Self {
        let line = line.to_owned();
        Self {
            line,
            around,
            code,
            cues: Vec::new(),
            head: None,
            env: Vec::new(),
            only: None,
            columns: COLUMNS,
        }
    }
}
