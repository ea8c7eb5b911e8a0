// A Rust program to record: vectors, maps, strings and boxes, threads that hand blocks to each
// other, a few kept till the end. Nothing in it is left to chance but the order of threads. The
// number is how much of it there is.
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::thread;

trait Shape {
    fn area(&self) -> u64;
}

struct Square(u64);
struct Line(Vec<u64>);

impl Shape for Square {
    fn area(&self) -> u64 {
        self.0 * self.0
    }
}

impl Shape for Line {
    fn area(&self) -> u64 {
        self.0.iter().sum()
    }
}

#[inline(never)]
fn words(from: u64, count: u64) -> HashMap<u64, String> {
    (from..from + count).map(|i| (i, format!("word number {}", i))).collect()
}

#[inline(never)]
fn table(count: u64) -> BTreeMap<u64, Vec<u64>> {
    (0..count).map(|i| (i, (0..i % 17).collect())).collect()
}

#[inline(never)]
fn shapes(count: u64) -> Vec<Box<dyn Shape>> {
    let mut all: Vec<Box<dyn Shape>> = Vec::new();
    for i in 0..count {
        if i % 3 == 0 {
            all.push(Box::new(Line(vec![i; 8])));
        } else {
            all.push(Box::new(Square(i)));
        }
    }
    all
}

#[inline(never)]
fn keep(count: u64) -> &'static [u64] {
    Box::leak((0..count).rev().collect::<Vec<_>>().into_boxed_slice())
}

fn main() {
    let count: u64 = std::env::args().nth(1).map_or(1000, |word| word.parse().unwrap());
    let (sender, receiver) = mpsc::channel::<HashMap<u64, String>>();
    let threads: Vec<_> = (0..4)
        .map(|i| {
            let sender = sender.clone();
            thread::Builder::new()
                .name(format!("words-{}", i))
                .spawn(move || sender.send(words(i * count, count)).unwrap())
                .unwrap()
        })
        .collect();

    drop(sender);
    for thread in threads {
        thread.join().unwrap();
    }
    let length: usize = receiver.iter().map(|map| map.values().map(String::len).sum::<usize>()).sum();
    let area: u64 = shapes(count).iter().map(|shape| shape.area()).sum();
    let cells: usize = table(count).values().map(Vec::len).sum();
    println!("{} {} {} {}", length, area, cells, keep(count).iter().sum::<u64>());
}
