//! Clients of rslock that want one lock again and again: peer PORT CLIENTS HOLD_US KEY. It speaks the
//! protocol of ../../../README.md. Each client has a connection of its own and is a task of tokio's.

use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rslock::{LockError, LockManager};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{block_in_place, JoinHandle};

const THREADS: usize = 4;
const LIFETIME: Duration = Duration::from_secs(30);
const RETRY_MOST: Duration = Duration::from_millis(40); // it chooses at random, 20 ms on average
const RETRIES: u32 = 50; // then it looks whether to go on

struct Client {
    manager: LockManager,
    turns: AtomicU64,
    held_ns: AtomicU64,
}

struct Crowd {
    clients: Vec<Client>,
    key: String,
    hold: Duration,
    over: AtomicBool,
}

fn fail(why: &dyn std::fmt::Display) -> ! {
    eprintln!("{why}");
    std::process::exit(1)
}

fn new_client(port: &str) -> Client {
    let mut manager = LockManager::new(vec![format!("redis://127.0.0.1:{port}")]);
    manager.set_retry(RETRIES, RETRY_MOST);
    Client { manager, turns: AtomicU64::new(0), held_ns: AtomicU64::new(0) }
}

/// The first lock connects.
async fn reach(client: &Client, key: &str) {
    match client.manager.lock(key, LIFETIME).await {
        Ok(lock) => lock.release().await,
        Err(error) => fail(&error),
    }
}

async fn run(crowd: Arc<Crowd>, number: usize) {
    let client = &crowd.clients[number];
    while !crowd.over.load(Relaxed) {
        let lock = match client.manager.lock(crowd.key.as_str(), LIFETIME).await {
            Ok(lock) => lock,
            Err(LockError::Unavailable) => continue,
            Err(error) => fail(&error),
        };
        let start = Instant::now();
        block_in_place(|| std::thread::sleep(crowd.hold)); // its timer has steps of 1 ms
        client.held_ns.fetch_add(start.elapsed().as_nanos() as u64, Relaxed);
        client.turns.fetch_add(1, Relaxed);
        lock.release().await;
    }
}

fn turns(crowd: &Crowd) -> String {
    let held: u64 = crowd.clients.iter().map(|c| c.held_ns.load(Relaxed)).sum();
    let counts: Vec<String> = crowd.clients.iter().map(|c| c.turns.load(Relaxed).to_string()).collect();
    format!("turns {held} {}", counts.join(" "))
}

fn answer(runtime: &Runtime, crowd: &Arc<Crowd>, loops: &mut Vec<JoinHandle<()>>, line: &str) -> String {
    match line {
        "go" => {
            crowd.over.store(false, Relaxed);
            loops.extend((0..crowd.clients.len()).map(|i| runtime.spawn(run(crowd.clone(), i))));
        }
        "stop" => {
            crowd.over.store(true, Relaxed);
            for one in loops.drain(..) {
                runtime.block_on(one).unwrap_or_else(|error| fail(&error));
            }
        }
        "turns" => return turns(crowd),
        _ => return "unknown command".to_string(),
    }
    "ok".to_string()
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize| args[i].parse::<u64>().unwrap_or_else(|error| fail(&error));
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .unwrap_or_else(|error| fail(&error));
    let crowd = Arc::new(Crowd {
        clients: (0..number(2)).map(|_| new_client(&args[1])).collect(),
        key: args[4].clone(),
        hold: Duration::from_micros(number(3)),
        over: AtomicBool::new(true),
    });
    for client in &crowd.clients {
        runtime.block_on(reach(client, &crowd.key));
    }
    let mut loops = Vec::new();
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap_or_else(|error| fail(&error));
        println!("{}", answer(&runtime, &crowd, &mut loops, &line));
        let _ = std::io::stdout().flush();
    }
    std::process::exit(0);
}
