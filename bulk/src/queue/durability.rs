//! Whether Redis keeps what it has confirmed.

use std::collections::HashMap;
use std::io;

use super::RedisQueue;

impl RedisQueue {
    /// Checks that Redis keeps what it has confirmed, as far as it tells. Returns warnings.
    /// [`Job::work`](super::super::Job::work) sends nothing if this is an error.
    ///
    /// # Errors
    ///
    /// If emails could be sent twice or not at all after a restart of Redis
    /// ([`Unsupported`](io::ErrorKind::Unsupported)): it has no append-only file, `appendfsync`
    /// is `no`, it may evict keys, or it is older than version 7.
    pub async fn check_durability(&self) -> io::Result<Vec<String>> {
        let info: String = self.connection.query(&redis::cmd("INFO")).await?;
        let info = info.lines().filter_map(|line| line.split_once(':'));
        let info = info
            .map(|(name, value)| (name, value.trim()))
            .collect::<HashMap<_, _>>();
        let config = redis::cmd("CONFIG")
            .arg("GET")
            .arg("appendfsync")
            .to_owned();
        let config: io::Result<Vec<String>> = self.connection.once(&config).await;
        // Some services forbid the command.
        let fsync = config.ok().and_then(|pair| pair.into_iter().nth(1));
        judge(&info, fsync.as_deref())
            .map_err(|problem| io::Error::new(io::ErrorKind::Unsupported, problem))
    }
}

fn judge(info: &HashMap<&str, &str>, fsync: Option<&str>) -> Result<Vec<String>, String> {
    let is = |name: &str, value: &str| info.get(name).is_some_and(|known| *known == value);
    let version = info.get("redis_version").copied().unwrap_or("unknown");
    let major = version
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < 7) {
        return Err(format!("Redis has version {version}; 7 or later is needed"));
    }
    if !is("aof_enabled", "1") {
        return Err(
            "Redis has no append-only file, so a restart would send emails twice; set \
                    `appendonly yes` and `appendfsync always`"
                .to_owned(),
        );
    }
    let evicts = info
        .get("maxmemory_policy")
        .is_some_and(|policy| policy.starts_with("allkeys"));
    if evicts && !is("maxmemory", "0") {
        return Err(
            "Redis may evict the job when its memory is full; set `maxmemory-policy \
                    noeviction`"
                .to_owned(),
        );
    }
    let mut warnings = Vec::new();
    match fsync {
        Some("always") => {}
        Some("no") => {
            return Err(
                "Redis leaves it to the system when its file is written to disk; set \
                        `appendfsync always`"
                    .to_owned(),
            );
        }
        Some(_) => warnings.push(
            "Redis writes its file to disk every second: if its machine crashes, emails of the \
             last second may be sent twice; `appendfsync always` prevents this"
                .to_owned(),
        ),
        None => warnings.push(
            "Redis does not tell how often it writes its file to disk; without `appendfsync \
             always`, emails may be sent twice after a crash of its machine"
                .to_owned(),
        ),
    }
    if evicts {
        warnings.push(
            "Redis evicts any key once `maxmemory` is set; set `maxmemory-policy noeviction`"
                .to_owned(),
        );
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weak_settings_are_refused_or_warned_about() {
        let safe = [
            ("redis_version", "7.2.4"),
            ("aof_enabled", "1"),
            ("maxmemory", "0"),
            ("maxmemory_policy", "noeviction"),
        ];
        let with = |name: &'static str, value: &'static str| {
            let mut info = HashMap::from(safe);
            info.insert(name, value);
            info
        };
        let info = HashMap::from(safe);
        assert_eq!(judge(&info, Some("always")), Ok(Vec::new()));
        assert!(judge(&info, Some("everysec")).is_ok_and(|warnings| warnings.len() == 1));
        assert!(judge(&info, None).is_ok_and(|warnings| warnings.len() == 1));
        assert!(judge(&info, Some("no")).is_err());
        assert!(judge(&with("redis_version", "6.2.1"), Some("always")).is_err());
        assert!(judge(&with("aof_enabled", "0"), Some("always")).is_err());
        let mut evicting = with("maxmemory_policy", "allkeys-lru");
        assert!(judge(&evicting, Some("always")).is_ok_and(|warnings| warnings.len() == 1));
        evicting.insert("maxmemory", "1000000");
        assert!(judge(&evicting, Some("always")).is_err());
    }
}
