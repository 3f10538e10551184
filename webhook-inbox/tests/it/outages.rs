//! PostgreSQL is stopped, crashes and is paused, while two processes receive and handle
//! deliveries. None is lost, each is handled exactly once, and the processes need no restart.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::crashes::{LEASE, Process, Sender, assert_each_once};
use crate::databases::PostgresBench;
use crate::server::Server;
use crate::support::{Bench, always_ok, body, eventually, quick, stop};

const DELIVERIES: usize = 1200;
const SENT: usize = 3 * DELIVERIES;

#[derive(Clone, Copy, Debug)]
enum Outage {
    Stop,
    Crash,
    Pause,
}

const OUTAGES: [Outage; 6] = [
    Outage::Stop,
    Outage::Pause,
    Outage::Crash,
    Outage::Stop,
    Outage::Crash,
    Outage::Pause,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outages_of_postgres_lose_nothing() {
    let Some(mut server) = Server::own().await else {
        return;
    };
    let bench = PostgresBench::on(server.database().await).await;
    let settings = bench.settings();
    let processes: Arc<[Mutex<Process>; 2]> =
        Arc::new([0, 1].map(|_| Mutex::new(Process::start(&settings))));
    let (sent, next, over) = (
        Arc::<AtomicUsize>::default(),
        Arc::<AtomicUsize>::default(),
        Arc::<AtomicUsize>::default(),
    );
    let refused = Arc::<AtomicUsize>::default();

    // Each delivery is sent to one process and to the other.
    let senders = (0..8).map(|_| {
        let mut sender = Sender::new(processes.clone());
        sender.refused = refused.clone();
        let (sent, next, over) = (sent.clone(), next.clone(), over.clone());
        tokio::spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= SENT {
                    return;
                }
                // A fast machine waits for the outages.
                while over.load(Ordering::Relaxed) < OUTAGES.len() * index / SENT {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                sender
                    .send(index % 2, &body(&(index / 3).to_string()))
                    .await;
                sent.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    let senders: Vec<_> = senders.collect();

    for (at, outage) in OUTAGES.into_iter().enumerate() {
        let half = (2 * at + 1) * SENT / (2 * OUTAGES.len());
        eventually("half of what is sent before the next outage", async || {
            (sent.load(Ordering::Relaxed) >= half).then_some(())
        })
        .await;
        let before = refused.load(Ordering::Relaxed);
        let both_refuse = async || {
            eventually(
                "receivers respond that the database is not available",
                async || (refused.load(Ordering::Relaxed) >= before + 4).then_some(()),
            )
            .await;
        };
        match outage {
            Outage::Stop | Outage::Crash => {
                server
                    .stop(if matches!(outage, Outage::Stop) {
                        "INT"
                    } else {
                        "QUIT"
                    })
                    .await;
                both_refuse().await;
                server.start_again().await;
            }
            Outage::Pause => {
                let _paused = server.pause();
                both_refuse().await;
            }
        }
        over.fetch_add(1, Ordering::Relaxed);
    }
    for sender in senders {
        sender.await.unwrap();
    }
    let bench = bench.reconnected().await;
    let mut handled = Vec::new();
    while handled.len() < DELIVERIES {
        let before = handled.len();
        handled = eventually("deliveries are handled", async || {
            Some(bench.handled().await).filter(|handled| handled.len() > before)
        })
        .await;
    }
    for process in &*processes {
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
    assert_each_once(&bench.handled().await, DELIVERIES);
    assert!(inbox.dead_letters(0, 1).await.unwrap().is_empty());
}
