//! An instance: a session of a model, and the requests that it runs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use reflex::{Any, AnyView, DType, ErrorKind, Session, Tensor};

use crate::batch::{self, TensorTypes};
use crate::datatype;
use crate::large_outputs::LargeOutputs;
use crate::model::{ModelState, Served};
use crate::server::{
    Code, Described, Failure, InputTensor, InstanceHandle, Outcome, RequestHandle, ResponseHandle,
    Times, log, now,
};
use crate::tensors;
use crate::watch::Watch;

/// An instance of the server.
pub(crate) struct InstanceState {
    served: Arc<Served>,
    session: Session,
    func: u32,
    watch: Watch,
    large_outputs: LargeOutputs,
}

/// The server opens an instance on one thread and runs it on another.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<InstanceState>();
};

/// A request that fits the signature.
struct Call<'r> {
    request: &'r RequestHandle,
    /// In the order of the signature.
    inputs: Vec<InputTensor<'r>>,
    types: TensorTypes,
    rows: i64,
}

impl InstanceState {
    /// Opens a session and compiles what the model's warm-up requests need.
    pub(crate) fn open(handle: InstanceHandle, model: &ModelState) -> Outcome<InstanceState> {
        let served = model.served();
        let mut session = model.program(&handle.device()?)?.session(served.mode)?;
        let func = session.function_index(&served.function)?;
        for shapes in &served.warm_ups {
            let infos = served.signature.inputs.iter();
            let zeros = infos.zip(shapes).map(|(info, shape)| Tensor::zeros(shape, info.dtype));
            let args: Vec<Any> = zeros.map(|t| t.map(Any::from)).collect::<Result<_, _>>()?;
            session.warm_up_func(func, AnyView::slice(&args))?;
        }
        let watch = Watch::start(session.canceller())
            .map_err(|e| Failure::internal(format!("no thread for an instance: {e}")))?;
        let large_outputs = LargeOutputs::default();
        Ok(InstanceState { served, session, func, watch, large_outputs })
    }

    /// Answers and releases all requests.
    pub(crate) fn execute(&mut self, handle: InstanceHandle, requests: Vec<RequestHandle>) {
        let start = now();
        let served = self.served.clone();
        let read: Vec<Outcome<Call<'_>>> = requests.iter().map(|r| served.read(r)).collect();
        let mut answered = vec![false; requests.len()];
        let fitting: Vec<(usize, &TensorTypes)> = read
            .iter()
            .enumerate()
            .filter_map(|(at, call)| Some((at, &call.as_ref().ok()?.types)))
            .collect();
        let groups = batch::groups(&fitting, served.batched);
        let mut times = Times { start, compute_start: now(), ..Times::default() };
        for group in groups {
            let calls: Vec<&Call<'_>> =
                group.iter().filter_map(|at| read[*at].as_ref().ok()).collect();
            let outcomes = self.run_apart(&calls);
            for (at, succeeded) in group.into_iter().zip(outcomes) {
                answered[at] = succeeded;
            }
        }
        times.compute_end = now();
        for (request, call) in requests.iter().zip(&read) {
            if let Err(failure) = call {
                respond(request, |_| Err(failure.clone()));
            }
        }
        times.end = now();
        let rows: i64 = read.iter().flatten().map(|call| call.rows).sum();
        drop(read);
        report(handle, &requests, &answered, rows, times);
        requests.into_iter().for_each(RequestHandle::release);
    }

    /// Runs a group; if it fails, each of its requests alone, so that only the guilty ones fail. One that
    /// ran out of time does not run again. Returns which were answered with results.
    fn run_apart(&mut self, calls: &[&Call<'_>]) -> Vec<bool> {
        if let [call] = calls
            && let Some(types) = self.large_outputs.of(&call.types)
        {
            match self.answer_in_place(call, &types) {
                Ok(()) => return vec![true],
                Err(failure) if matches!(failure.code, Code::Cancelled | Code::Unavailable) => {
                    return vec![respond(call.request, |_| Err(failure))];
                }
                // The outputs may have other shapes this time, which the values of inputs can decide.
                Err(_) => self.large_outputs.forget(&call.types),
            }
        }
        match self.run(calls) {
            Ok(results) => {
                if let ([call], true) = (calls, self.served.states.is_empty()) {
                    self.large_outputs.note(&call.types, &results);
                }
                self.served.answer(calls, &results)
            }
            Err(failure)
                if calls.len() == 1
                    || matches!(failure.code, Code::Cancelled | Code::Unavailable) =>
            {
                for call in calls {
                    respond(call.request, |_| Err(failure.clone()));
                }
                vec![false; calls.len()]
            }
            Err(_) => calls.iter().flat_map(|call| self.run_apart(&[*call])).collect(),
        }
    }

    fn run(&mut self, calls: &[&Call<'_>]) -> Outcome<Vec<Tensor>> {
        let rows: i64 = calls.iter().map(|call| call.rows).sum();
        let value = self.watched(calls, |session, func, args| {
            session.call_index(func, AnyView::slice(&args))
        })?;
        let results = tensors::results(&value)?;
        let fits = |t: &Tensor| !self.served.batched || t.shape().first() == Some(&rows);
        match results.len() == self.served.signature.outputs.len() && results.iter().all(fits) {
            true => Ok(results),
            false => Err(Failure::internal(
                "the results are not those of the signature, a row for each of the batch; \
                 set max_batch_size to 0 for a model without batches",
            )),
        }
    }

    /// Runs a request with the buffers of its response as outputs, and sends that. After a failure nothing
    /// was sent.
    fn answer_in_place(&mut self, call: &Call<'_>, outputs: &TensorTypes) -> Outcome<()> {
        let response = call.request.response()?;
        match self.run_into(call, outputs, &response) {
            Ok(()) => {
                response.send(&Ok(()));
                Ok(())
            }
            Err(failure) => {
                response.discard();
                Err(failure)
            }
        }
    }

    /// Runs a request with the buffers of its response as outputs, which kernels write.
    fn run_into(
        &mut self,
        call: &Call<'_>,
        outputs: &TensorTypes,
        response: &ResponseHandle,
    ) -> Outcome<()> {
        let served = self.served.clone();
        let asked = call.request.outputs()?;
        let names = served.signature.outputs.iter().zip(&served.output_names);
        let mut targets: Vec<Tensor> = vec![];
        for ((info, name), (dtype, shape)) in names.zip(outputs) {
            if !asked.iter().any(|asked| *asked == info.name) {
                targets.push(Tensor::empty(shape, *dtype)?);
                continue;
            }
            let datatype = self.served.datatype(&info.name, *dtype)?;
            let sent: &[i64] = if shape.is_empty() { &[1] } else { shape };
            let too_large = || Failure::internal(format!("output {name:?} is too large"));
            let bytes = tensors::size(*dtype, shape).ok_or_else(too_large)?;
            let buffer = response.buffer(name, datatype, sent, bytes)?;
            // SAFETY: the buffer is as large as the tensor and the response's, which is sent after
            // this function; a program that could keep a tensor longer writes none in place.
            targets.push(unsafe { tensors::of_buffer(buffer, *dtype, shape) }?);
        }
        self.watched(&[call], |session, func, args| session.call_index_into(func, args, targets))
    }

    /// Has `run` run the program on the inputs of `calls`, one after another, until the clients' time is
    /// over or they are gone.
    fn watched<T>(
        &mut self,
        calls: &[&Call<'_>],
        run: impl FnOnce(&mut Session, u32, Vec<Any>) -> reflex::Result<T>,
    ) -> Outcome<T> {
        let requests: Vec<&RequestHandle> = calls.iter().map(|call| call.request).collect();
        let rows: i64 = calls.iter().map(|call| call.rows).sum();
        let mut args: Vec<Any> = vec![];
        for (at, (dtype, shape)) in calls[0].types.iter().enumerate() {
            let mut shape = shape.clone();
            if let Some(first) = shape.first_mut().filter(|_| self.served.batched) {
                *first = rows;
            }
            let parts: Vec<&[u8]> =
                calls.iter().flat_map(|call| call.inputs[at].parts.iter().copied()).collect();
            // SAFETY: the requests, whose parts these are, are released after the results and
            // arguments of this run are dropped (`execute`); a session keeps no argument of a call.
            args.push(Any::from(unsafe { tensors::gather(*dtype, &shape, &parts) }?));
        }
        self.session.set_deadline(self.deadline(&requests));
        let InstanceState { session, func, watch, .. } = self;
        let call = || run(session, *func, args);
        // A panic is this batch's failure; the requests have to be answered.
        let value = watch.during(&requests, || catch_unwind(AssertUnwindSafe(call)));
        let value = value.map_err(|_| Failure::internal("the run panicked"))?;
        value.map_err(|error| match error.kind() {
            // Of inputs that fit the signature: what a kernel or a shape check refuses.
            ErrorKind::Run => Failure::invalid(error.to_string()),
            _ => Failure::from(error),
        })
    }

    /// The time that a run has: the longest that a client gives, and no longer than the model's.
    fn deadline(&self, requests: &[&RequestHandle]) -> Option<Duration> {
        let timeouts = requests.iter().map(|request| request.timeout_us());
        let given = timeouts.map(|us| (us > 0).then(|| Duration::from_micros(us)));
        let longest = given.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max());
        longest.into_iter().chain(self.served.timeout).min()
    }
}

impl Served {
    /// Reads a request and checks it.
    fn read<'r>(&self, request: &'r RequestHandle) -> Outcome<Call<'r>> {
        if request.is_cancelled() {
            return Err(Failure::new(Code::Cancelled, "the client has gone"));
        }
        let mut given = request.inputs()?;
        let (mut inputs, mut types) = (vec![], vec![]);
        for info in &self.signature.inputs {
            let at = given.iter().position(|input| input.name == info.name);
            let missing = || Failure::invalid(format!("input {} is missing", info.name));
            let input = given.swap_remove(at.ok_or_else(missing)?);
            let dtype = datatype::of_number(input.datatype)
                .ok_or_else(|| Failure::invalid(format!("input {info}: strings are no tensors")))?;
            // The server has no scalars; one element is sent in their place.
            let scalar = info.shape.is_empty() && input.shape == [1];
            types.push((dtype, if scalar { vec![] } else { input.shape.to_vec() }));
            inputs.push(input);
        }
        batch::check(&self.signature.inputs, &types).map_err(Failure::invalid)?;
        let rows = batch::rows(&types, self.batched).map_err(Failure::invalid)?;
        Ok(Call { request, inputs, types, rows })
    }

    /// Returns the server's number of an output's type.
    fn datatype(&self, name: &str, dtype: DType) -> Outcome<u32> {
        let no_type = || Failure::new(Code::Unsupported, format!("output {name} is {dtype}"));
        datatype::number_of(dtype).ok_or_else(no_type)
    }

    /// Sends each request its rows of the results.
    fn answer(&self, calls: &[&Call<'_>], results: &[Tensor]) -> Vec<bool> {
        let total: i64 = calls.iter().map(|call| call.rows).sum();
        let mut before = 0;
        let mut answer = |call: &&Call<'_>| {
            let rows = Rows { before, count: call.rows, total, batched: self.batched };
            before += call.rows;
            respond(call.request, |response| {
                for name in call.request.outputs()? {
                    self.describe(&name, results, rows, |output| response.output(output))?;
                }
                let mut states = self.states.iter();
                states.try_for_each(|state| {
                    self.describe(&state.output, results, rows, |output| {
                        call.request.set_sequence_state(output)
                    })
                })
            })
        };
        calls.iter().map(&mut answer).collect()
    }

    /// Gives `use_output` the rows of the output `name`.
    fn describe(
        &self,
        name: &str,
        results: &[Tensor],
        rows: Rows,
        use_output: impl FnOnce(&Described<'_>) -> Outcome<()>,
    ) -> Outcome<()> {
        let at = self.signature.outputs.iter().position(|output| output.name == name);
        let found = at.and_then(|at| Some((results.get(at)?, self.output_names.get(at)?)));
        let (tensor, c_name) =
            found.ok_or_else(|| Failure::invalid(format!("the model has no output {name}")))?;
        let datatype = self.datatype(name, tensor.dtype())?;
        let mut shape = tensor.shape().to_vec();
        let mut bytes = tensors::bytes(tensor);
        if let Some(first) = shape.first_mut().filter(|_| rows.batched) {
            *first = rows.count;
            let row = bytes.len() / rows.total as usize;
            bytes = &bytes[rows.before as usize * row..][..rows.count as usize * row];
        }
        if shape.is_empty() {
            shape.push(1);
        }
        use_output(&Described { name: c_name, datatype, shape: &shape, bytes })
    }
}

/// The rows of a batch that are one request's.
#[derive(Clone, Copy)]
struct Rows {
    before: i64,
    count: i64,
    total: i64,
    batched: bool,
}

/// Makes a response, has `fill` write it, and sends it or the failure. Returns true for results.
fn respond(request: &RequestHandle, fill: impl FnOnce(&ResponseHandle) -> Outcome<()>) -> bool {
    match request.response() {
        Ok(response) => {
            let filled = fill(&response);
            response.send(&filled);
            filled.is_ok()
        }
        Err(failure) => {
            log(2, &format!("a request cannot be answered: {}", failure.message));
            false
        }
    }
}

/// Reports the requests and, if any succeeded, the batch.
fn report(
    handle: InstanceHandle,
    requests: &[RequestHandle],
    answered: &[bool],
    rows: i64,
    times: Times,
) {
    let mut reported: Vec<Outcome<()>> =
        requests.iter().zip(answered).map(|(r, ok)| handle.report(r, *ok, times)).collect();
    if answered.contains(&true) {
        reported.push(handle.report_batch(rows as u64, times));
    }
    if let Some(Err(failure)) = reported.into_iter().find(Result::is_err) {
        log(1, &format!("statistics cannot be reported: {}", failure.message));
    }
}
