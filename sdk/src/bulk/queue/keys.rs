//! The names of a job's keys. The braces keep them on one node of a cluster.

#[derive(Clone, Debug)]
pub(super) struct Keys {
    pub(super) job: String,
    pub(super) rows: String,
    pub(super) files: String,
    pub(super) chunks: String,
    pub(super) fence: String,
    pub(super) log: String,
    pub(super) counts: String,
    pub(super) done: String,
    pub(super) workers: String,
}

impl Keys {
    pub(super) fn new(job: &str) -> Self {
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

    pub(super) fn all(&self) -> [&String; 9] {
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
