//! PostgreSQL is stopped, crashes, is paused and fails over, while two processes receive and
//! handle deliveries. None is lost, each is handled exactly once, and the processes need no restart.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use webhook_inbox::Inbox;

use crate::crashes::{LEASE, Process, Sender, assert_each_once, longer};
use crate::databases::{PostgresBench, pool};
use crate::proxy::Proxy;
use crate::server::Server;
use crate::support::{Bench, always_ok, body, delivery, eventually, quick, stop};

const DELIVERIES: usize = 1200;

#[derive(Clone, Copy, Debug)]
enum Outage {
    Stop,
    Crash,
    Pause,
    FailOver,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
async fn outages_of_postgres_lose_nothing() {
    let outages = [
        Outage::Stop,
        Outage::Pause,
        Outage::Crash,
        Outage::Stop,
        Outage::Crash,
        Outage::Pause,
    ];
    survive(&outages.repeat(longer())).await;
}

/// What a handler committed is on the standby, and what the primary did not confirm is handled
/// after the failover.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
async fn a_failover_of_postgres_loses_nothing() {
    survive(&[Outage::FailOver]).await;
}

/// A firewall that forgets connections: nobody is told, and what was sent on them is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
async fn connections_that_are_held_half_open_lose_nothing() {
    let bench = PostgresBench::start().await.expect("SVC_TEST_POSTGRES=1");
    let proxy = Proxy::start(bench.config(), Duration::ZERO);
    let inbox = Inbox::new(pool(proxy.config(bench.config()), 10));
    let limit = Duration::from_secs(2);
    let worker = PostgresBench::run(quick(&inbox).handler_timeout(limit), always_ok());
    let rounds = 3 * longer();
    for round in 0..rounds {
        for number in 0..20 {
            let delivery = delivery(&(20 * round + number).to_string());
            let accepted = async || inbox.accept(&delivery).await.ok();
            eventually("the inbox accepts", accepted).await;
            if number == 10 {
                proxy.forget_connections();
            }
        }
        bench.wait_for(20 * (round + 1)).await;
    }

    stop(&inbox, worker).await;
    assert_each_once(&bench.handled().await, 20 * rounds);
    assert!(bench.inbox().dead_letters(0, 1).await.unwrap().is_empty());
}

async fn survive(outages: &[Outage]) {
    let mut server = Server::own().await.expect("SVC_TEST_POSTGRES=1");
    let bench = PostgresBench::on(server.database().await).await;
    // Enough that some are still to be sent when the server stops.
    let deliveries = DELIVERIES * outages.len().max(3) / 6;
    let settings = bench.settings();
    let fails_over = outages
        .iter()
        .any(|outage| matches!(outage, Outage::FailOver));
    let mut standby = None;
    if fails_over {
        standby = Some(server.standby().await);
    }
    let processes = [0, 1].map(|_| Mutex::new(Process::start(&settings)));
    let flood = Flood {
        processes: Arc::new(processes),
        sendings: 3 * deliveries,
        outages: outages.len(),
        next: AtomicUsize::new(0),
        sent: AtomicUsize::new(0),
        over: AtomicUsize::new(0),
        refused: Arc::default(),
    };
    let flood = Arc::new(flood);
    let senders: Vec<_> = (0..8).map(|_| tokio::spawn(flood.clone().send())).collect();

    for (at, outage) in outages.iter().enumerate() {
        flood.half_of_part(at).await;
        match outage {
            Outage::Stop => {
                server.stop("INT").await;
                flood.is_refused().await;
                server.start_again().await;
            }
            Outage::Crash => {
                server.stop("QUIT").await;
                flood.is_refused().await;
                server.start_again().await;
            }
            Outage::Pause => {
                let _paused = server.pause();
                flood.is_refused().await;
            }
            Outage::FailOver => {
                server.stop("QUIT").await;
                flood.is_refused().await;
                let standby = standby.as_ref().unwrap();
                standby.take_over_from(&server).await;
            }
        }
        flood.over.fetch_add(1, Ordering::Relaxed);
    }

    for sender in senders {
        sender.await.unwrap();
    }

    let bench = bench.reconnected().await;
    let mut handled = Vec::new();
    while handled.len() < deliveries {
        let before = handled.len();
        handled = eventually("deliveries are handled", async || {
            Some(bench.handled().await).filter(|handled| handled.len() > before)
        })
        .await;
    }

    for process in &*flood.processes {
        let mut process = process.lock().unwrap();
        assert!(
            process.child.try_wait().unwrap().is_none(),
            "a process has ended"
        );
        process.child.kill().unwrap();
    }

    // What is still claimed is not handled again.
    let inbox = bench.inbox();
    let worker = PostgresBench::run(quick(&inbox), always_ok());
    tokio::time::sleep(2 * LEASE).await;
    stop(&inbox, worker).await;
    assert_each_once(&bench.handled().await, deliveries);
    assert!(inbox.dead_letters(0, 1).await.unwrap().is_empty());
}

/// What is sent to two processes: each delivery three times.
struct Flood {
    processes: Arc<[Mutex<Process>; 2]>,
    sendings: usize,
    outages: usize,
    next: AtomicUsize,
    sent: AtomicUsize,
    /// How many outages are over.
    over: AtomicUsize,
    /// How many responses were not 2xx.
    refused: Arc<AtomicUsize>,
}

impl Flood {
    async fn send(self: Arc<Self>) {
        let mut sender = Sender::new(self.processes.clone());
        sender.refused = self.refused.clone();
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.sendings {
                return;
            }
            // A fast machine waits for the outages.
            while self.over.load(Ordering::Relaxed) < self.outages * index / self.sendings {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let delivery = body(&(index / 3).to_string());
            sender.send(index % 2, &delivery).await;
            self.sent.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn half_of_part(&self, outage: usize) {
        let half = (2 * outage + 1) * self.sendings / (2 * self.outages);
        eventually("half of what is sent before the next outage", async || {
            (self.sent.load(Ordering::Relaxed) >= half).then_some(())
        })
        .await;
    }

    /// Waits until receivers respond that the database is not available.
    async fn is_refused(&self) {
        let before = self.refused.load(Ordering::Relaxed);
        eventually("receivers refuse", async || {
            (self.refused.load(Ordering::Relaxed) >= before + 4).then_some(())
        })
        .await;
    }
}
