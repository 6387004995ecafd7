//! `evenkeel bench load`: requests over TCP, by NBD or by NVMe, from a client in user space.
//!
//! fio has a client of NBD, and none of NVMe over TCP. To compare the two, both have to be asked in
//! the same way: here one thread keeps a number of requests under way on one connection, with one
//! system call to send what it has and one to receive what there is. What it prints has the form of
//! fio's JSON, as far as [`crate::fio`] reads it.

mod nbd;
mod nvme;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use crate::failure::{Failure, Kind};
use crate::process;
use crate::units::parse_size;

/// Most requests under way.
const MAX_DEPTH: u32 = 127;
/// Bytes that are received at once.
const RECEIVED: usize = 256 << 10;
/// How long the other side may be silent while it owes an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// In percent.
const PERCENTILES: [f64; 8] = [1.0, 10.0, 50.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// What to ask for, and of whom.
#[derive(Debug, Clone, Args)]
pub struct LoadArgs {
    /// HOST:PORT
    #[arg(long)]
    pub address: String,
    /// The NBD export
    #[arg(long, value_name = "NAME", required_unless_present = "subsystem")]
    pub export: Option<String>,
    /// The NVMe subsystem
    #[arg(long, value_name = "NQN", conflicts_with = "export", requires = "host")]
    pub subsystem: Option<String>,
    /// The name of the NVMe host
    #[arg(long, value_name = "NQN")]
    pub host: Option<String>,
    /// As fio calls it: read, write, randread, randwrite, randrw
    #[arg(long)]
    pub pattern: String,
    /// Bytes of a request
    #[arg(long, value_parser = parse_size, default_value = "4k")]
    pub block: u64,
    /// Requests under way
    #[arg(long, default_value_t = 1)]
    pub depth: u32,
    /// Bytes that are used of the export
    #[arg(long, value_parser = parse_size)]
    pub size: u64,
    /// How long
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1000)]
    pub runtime: u64,
    /// End after so many reads and writes, however long they take
    #[arg(long, conflicts_with = "runtime")]
    pub requests: Option<u64>,
    /// A flush after so many writes; 0: none
    #[arg(long, default_value_t = 0)]
    pub flush_every: u64,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Read { offset: u64, length: u32 },
    Write { offset: u64, length: u32 },
    Flush,
}

/// When nothing more is asked.
#[derive(Debug, Clone, Copy)]
enum End {
    At(Instant),
    /// So many reads and writes.
    After(u64),
}

/// One side of a protocol, from when it is connected. A request has a number below the depth, which
/// is free again when it is done.
trait Protocol {
    /// Appends what asks for it; `data` is what is written.
    fn ask(&mut self, number: u16, ask: Ask, data: &[u8], out: &mut Vec<u8>);

    /// Takes bytes; says how many were used, and which requests are done. May append an answer.
    fn receive(
        &mut self,
        bytes: &[u8],
        data: &[u8],
        out: &mut Vec<u8>,
        done: &mut Vec<u16>,
    ) -> Result<usize, String>;
}

/// What was measured of one kind of requests.
#[derive(Debug, Default)]
struct Measured {
    nanoseconds: Vec<u64>,
}

/// Does what is asked for. Returns JSON as fio prints it.
///
/// # Errors
/// If the arguments make no sense, the server is not reached, or it answers an error.
pub fn run(args: &LoadArgs) -> Result<String, Failure> {
    check(args)?;
    let failed = |why: String| Failure::new(format!("cannot use {}", args.address), why);
    let (mut stream, mut protocol) = connect(args).map_err(failed)?;
    let before = process::cpu_seconds(&[std::process::id()]);
    let start = Instant::now();
    let mut load = Load::new(args);
    load.run(&mut stream, &mut *protocol).map_err(failed)?;
    let seconds = start.elapsed().as_secs_f64();
    let cpu = process::cpu_seconds(&[std::process::id()]) - before;
    Ok(as_fio(&load, seconds, cpu).to_string())
}

fn check(args: &LoadArgs) -> Result<(), Failure> {
    let usage = |what: &str| Err(Failure::new(what, "").kind(Kind::Usage));
    if !(1..=MAX_DEPTH).contains(&args.depth) {
        return usage("--depth is not between 1 and 127");
    }
    if args.block == 0 || args.block > 1 << 20 || !args.block.is_multiple_of(512) {
        return usage("--block is not a multiple of 512, or over 1M");
    }
    if args.size < args.block {
        return usage("--size is less than --block");
    }
    if !["read", "write", "randread", "randwrite", "randrw"].contains(&args.pattern.as_str()) {
        return usage("--pattern is none of read, write, randread, randwrite, randrw");
    }
    Ok(())
}

fn connect(args: &LoadArgs) -> Result<(TcpStream, Box<dyn Protocol>), String> {
    if let Some(export) = &args.export {
        let (stream, client) = nbd::connect(&args.address, export)?;
        return Ok((stream, Box::new(client)));
    }
    let names = (args.subsystem.as_deref(), args.host.as_deref());
    let (Some(subsystem), Some(host)) = names else { return Err("no export is named".to_owned()) };
    let (stream, client) = nvme::connect(&args.address, (subsystem, host), args.depth)?;
    Ok((stream, Box::new(client)))
}

/// A connection without delays, on which silence is an error.
fn open(address: &str) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// The requests of one run.
struct Load<'a> {
    args: &'a LoadArgs,
    data: Vec<u8>,
    random: u64,
    next: u64,
    /// By number: what it is, and since when.
    under_way: Vec<Option<(Ask, Instant)>>,
    free: Vec<u16>,
    unflushed: u64,
    reads: Measured,
    writes: Measured,
    flushes: Measured,
}

impl<'a> Load<'a> {
    fn new(args: &'a LoadArgs) -> Self {
        // Not zeroes, and no two blocks of 512 bytes alike.
        let data = (0..args.block).map(|at| (at ^ (at >> 9) ^ 0xa5) as u8).collect();
        Self {
            args,
            data,
            random: 0x9e37_79b9_7f4a_7c15 ^ u64::from(std::process::id()),
            next: 0,
            under_way: vec![None; args.depth as usize],
            free: (0..args.depth as u16).rev().collect(),
            unflushed: 0,
            reads: Measured::default(),
            writes: Measured::default(),
            flushes: Measured::default(),
        }
    }

    fn run(&mut self, stream: &mut TcpStream, protocol: &mut dyn Protocol) -> Result<(), String> {
        let end = match self.args.requests {
            Some(count) => End::After(count),
            None => End::At(Instant::now() + Duration::from_millis(self.args.runtime)),
        };
        let (mut out, mut done) = (Vec::new(), Vec::new());
        let (mut buffer, mut filled) = (vec![0; RECEIVED], 0);
        loop {
            self.fill(protocol, end, &mut out);
            if !out.is_empty() {
                stream.write_all(&out).map_err(|error| error.to_string())?;
                out.clear();
            }
            if self.free.len() == self.under_way.len() {
                return Ok(());
            }
            let count = stream.read(&mut buffer[filled..]).map_err(|error| error.to_string())?;
            if count == 0 {
                return Err("it has closed the connection".to_owned());
            }
            filled += count;
            let used = protocol.receive(&buffer[..filled], &self.data, &mut out, &mut done)?;
            buffer.copy_within(used..filled, 0);
            filled -= used;
            let now = Instant::now();
            for number in done.drain(..) {
                self.done(number, now)?;
            }
        }
    }

    /// Asks until as much is under way as may be, or the run ends.
    fn fill(&mut self, protocol: &mut dyn Protocol, end: End, out: &mut Vec<u8>) {
        let now = Instant::now();
        while !self.is_over(end, now) && !self.free.is_empty() {
            let wants_flush = self.args.flush_every > 0 && self.unflushed >= self.args.flush_every;
            // It is for all writes before it.
            if wants_flush && self.free.len() < self.under_way.len() {
                return;
            }
            // There is one: the loop has looked.
            let Some(number) = self.free.pop() else { return };
            let ask = if wants_flush { Ask::Flush } else { self.next_ask() };
            protocol.ask(number, ask, &self.data, out);
            self.under_way[usize::from(number)] = Some((ask, now));
            if wants_flush {
                self.unflushed = 0;
                return;
            }
        }
    }

    fn is_over(&self, end: End, now: Instant) -> bool {
        match end {
            End::At(time) => now >= time,
            End::After(count) => self.next >= count,
        }
    }

    fn next_ask(&mut self) -> Ask {
        let (blocks, length) = (self.args.size / self.args.block, self.args.block as u32);
        let is_random = self.args.pattern.starts_with("rand");
        let block = if is_random { self.draw() % blocks } else { self.next % blocks };
        self.next += 1;
        let offset = block * self.args.block;
        let reads = match self.args.pattern.as_str() {
            "read" | "randread" => true,
            "randrw" => self.draw() & 1 == 0,
            _ => false,
        };
        if reads {
            return Ask::Read { offset, length };
        }
        self.unflushed += 1;
        Ask::Write { offset, length }
    }

    /// xorshift64*.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn done(&mut self, number: u16, now: Instant) -> Result<(), String> {
        let place = self.under_way.get_mut(usize::from(number));
        let (ask, since) = place
            .and_then(Option::take)
            .ok_or_else(|| format!("it answers request {number}, which it was not asked"))?;
        self.free.push(number);
        let measured = match ask {
            Ask::Read { .. } => &mut self.reads,
            Ask::Write { .. } => &mut self.writes,
            Ask::Flush => &mut self.flushes,
        };
        measured.nanoseconds.push(now.duration_since(since).as_nanos() as u64);
        Ok(())
    }
}

fn as_fio(load: &Load<'_>, seconds: f64, cpu: f64) -> Value {
    let of = |measured: &Measured| measured.as_fio(load.args.block, seconds);
    json!({ "jobs": [{
        "jobname": "load",
        "error": 0,
        "job_runtime": seconds * 1000.0,
        "usr_cpu": cpu / seconds * 100.0,
        "sys_cpu": 0.0,
        "read": of(&load.reads),
        "write": of(&load.writes),
        "sync": of(&load.flushes),
    }]})
}

impl Measured {
    fn as_fio(&self, block: u64, seconds: f64) -> Value {
        let mut sorted = self.nanoseconds.clone();
        sorted.sort_unstable();
        let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else {
            return json!({ "total_ios": 0 });
        };
        let count = sorted.len();
        let mean = sorted.iter().sum::<u64>() as f64 / count as f64;
        let at = |percent: f64| sorted[((count - 1) as f64 * percent / 100.0).round() as usize];
        let percentiles: serde_json::Map<String, Value> =
            PERCENTILES.iter().map(|it| (format!("{it:.6}"), at(*it).into())).collect();
        let times = json!({ "mean": mean, "min": min, "max": max, "percentile": percentiles });
        let bytes = count as u64 * block;
        json!({
            "total_ios": count,
            "io_bytes": bytes,
            "runtime": seconds * 1000.0,
            "bw_bytes": bytes as f64 / seconds,
            "iops": count as f64 / seconds,
            "lat_ns": times,
            "clat_ns": times,
        })
    }
}

#[cfg(test)]
mod tests;
