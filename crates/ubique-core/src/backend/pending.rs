//! A value that arrives later: awaited as a future, or waited for.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::error::{Error, Result};

/// A result that may still be on its way, such as a download from an accelerator.
#[must_use = "a pending value does nothing until it is awaited or waited for"]
pub struct Pending<T>(State<T>);

enum State<T> {
    Ready(Option<Result<T>>),
    Later(Pin<Box<dyn Future<Output = Result<T>> + Send>>),
}

impl<T> Pending<T> {
    /// A value that is already here.
    pub fn ready(value: T) -> Pending<T> {
        Pending(State::Ready(Some(Ok(value))))
    }

    /// A value that somebody promises to give, from any thread.
    pub fn promised() -> (Promise<T>, Pending<T>)
    where
        T: Send + 'static,
    {
        let slot = Arc::new(Mutex::new(Slot { value: None, waker: None }));
        let promise = Promise(slot.clone());
        let future = poll_fn(move |context| {
            let mut slot = lock(&slot);
            match slot.value.take() {
                Some(value) => Poll::Ready(value),
                None => {
                    slot.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        });
        (promise, Pending::later(future))
    }

    /// A value that a future will give.
    pub fn later(future: impl Future<Output = Result<T>> + Send + 'static) -> Pending<T> {
        Pending(State::Later(Box::pin(future)))
    }
}

/// The duty to give a [`Pending`] its value. Dropped without, it gives an error.
#[must_use = "somebody waits for this value"]
pub struct Promise<T>(Arc<Mutex<Slot<T>>>);

struct Slot<T> {
    value: Option<Result<T>>,
    waker: Option<Waker>,
}

fn lock<T>(slot: &Mutex<Slot<T>>) -> MutexGuard<'_, Slot<T>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Promise<T> {
    /// Gives the value, or the error that there is instead.
    pub fn keep(self, value: Result<T>) {
        lock(&self.0).value = Some(value);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        let mut slot = lock(&self.0);
        slot.value.get_or_insert_with(|| Err(Error::backend("the device ended before the value was there")));
        let waker = slot.waker.take();
        drop(slot);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T: Unpin> Pending<T> {
    /// Blocks this thread until the value is here.
    ///
    /// # Errors
    /// What the transfer or the work before it failed with.
    pub fn wait(self) -> Result<T> {
        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        if let State::Ready(value) = self.0 {
            return value.unwrap_or_else(|| Err(taken()));
        }
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut this = pin!(self);
        loop {
            match this.as_mut().poll(&mut context) {
                Poll::Ready(value) => return value,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

fn taken() -> Error {
    Error::backend("a pending value was polled again after it had been taken")
}

impl<T: Unpin> Future for Pending<T> {
    type Output = Result<T>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        match &mut self.0 {
            State::Ready(value) => Poll::Ready(value.take().unwrap_or_else(|| Err(taken()))),
            State::Later(future) => future.as_mut().poll(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_another_thread() {
        let (sender, receiver) = std::sync::mpsc::channel::<(Waker, Arc<std::sync::atomic::AtomicBool>)>();
        let helper = std::thread::spawn(move || {
            let (waker, flag) = receiver.recv().unwrap();
            flag.store(true, std::sync::atomic::Ordering::SeqCst);
            waker.wake();
        });
        let flag = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let mut sender = Some(sender);
        let pending = Pending::later(std::future::poll_fn(move |context| {
            if let Some(sender) = sender.take() {
                sender.send((context.waker().clone(), flag.clone())).unwrap();
            }
            if flag.load(std::sync::atomic::Ordering::SeqCst) { Poll::Ready(Ok(7)) } else { Poll::Pending }
        }));
        assert_eq!(pending.wait().unwrap(), 7);
        helper.join().unwrap();
        assert_eq!(Pending::ready(1).wait().unwrap(), 1);
    }

    #[test]
    fn promises_are_kept_or_broken() {
        let (promise, pending) = Pending::promised();
        let helper = std::thread::spawn(move || promise.keep(Ok(5)));
        assert_eq!(pending.wait().unwrap(), 5);
        helper.join().unwrap();
        let (promise, pending) = Pending::<i32>::promised();
        drop(promise);
        assert!(pending.wait().unwrap_err().to_string().contains("ended"));
    }
}
