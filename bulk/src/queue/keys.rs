//! The names of a job's keys. The braces keep them on one node of a cluster.

#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) job: String,
    pub(crate) rows: String,
    pub(crate) files: String,
    pub(crate) chunks: String,
    pub(crate) fence: String,
    pub(crate) log: String,
    pub(crate) counts: String,
    pub(crate) done: String,
    pub(crate) workers: String,
}

impl Keys {
    pub(crate) fn new(job: &str) -> Self {
        let key = |name: &str| format!("svc:bulk:{{{job}}}{name}");
        Self {
            job: key(""),
            rows: key(":rows"),
            files: key(":files"),
            chunks: key(":chunks"),
            fence: key(":fence"),
            log: key(":log"),
            counts: key(":counts"),
            done: key(":done"),
            workers: key(":workers"),
        }
    }

    pub(crate) fn all(&self) -> [&String; 9] {
        [
            &self.job,
            &self.rows,
            &self.files,
            &self.chunks,
            &self.fence,
            &self.log,
            &self.counts,
            &self.done,
            &self.workers,
        ]
    }
}
