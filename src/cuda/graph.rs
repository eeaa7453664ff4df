//! Batches of launches as CUDA graphs: built node by node, one after the other, and instantiated once.

use std::ffi::c_void;
use std::fmt;
use std::ptr::null_mut;

use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUtensorMap,
};
use reflex_runtime::device::Stream;
use reflex_runtime::device::batch::{Arena, Batch, Change, Recorded, RecordedLaunch};
use reflex_runtime::error::Error;

use crate::call::{Failure, cu};
use crate::gpu::Gpu;
use crate::launches::KernelName;
use crate::settings::synchronous;
use crate::streams::StreamState;
use crate::tensor_maps::encode_all;

/// A graph that is ready to be launched, and its launches.
pub(crate) struct Graph {
    gpu: &'static Gpu,
    stream: Stream,
    raw: Raw,
    nodes: Vec<CUgraphNode>,
    launches: Vec<RecordedLaunch>,
    /// Tensor maps of each launch, for the addresses that it has.
    maps: Vec<Vec<CUtensorMap>>,
    /// Launches whose parameters the graph does not have yet.
    stale: Vec<usize>,
    arena: Arena,
    /// Its name in errors.
    name: KernelName,
}

struct Raw {
    graph: CUgraph,
    exec: CUgraphExec,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name.text())
    }
}

// SAFETY: graphs are the driver's objects, which it takes from one thread at a time; `Batch::replay`
// has exclusive access.
unsafe impl Send for Graph {}

impl Graph {
    /// Builds the graph of recorded launches.
    pub(crate) fn new(
        gpu: &'static Gpu,
        stream: Stream,
        recorded: Recorded,
    ) -> Result<Graph, Error> {
        let Recorded { launches, arena } = recorded;
        let name = format!("a batch of {} launches", launches.len());
        let (raw, nodes) = (Raw { graph: null_mut(), exec: null_mut() }, vec![]);
        let stale = vec![];
        // From here on, dropping it gives back what it has.
        let name = KernelName::new(&name);
        let maps = vec![];
        let mut graph = Graph { gpu, stream, raw, nodes, launches, maps, stale, arena, name };
        if synchronous() {
            return Err(Error::value_error("launches are synchronous: each is waited for"));
        }
        gpu.enter()?;
        graph.build().map_err(|why| gpu.error(why))?;
        Ok(graph)
    }

    fn build(&mut self) -> Result<(), Failure> {
        let encode = |l: &RecordedLaunch| encode_all(&l.maps, &l.params);
        self.maps = self.launches.iter().map(encode).collect::<Result<_, _>>()?;
        // SAFETY: each call writes the handles that it is given the places of; the parameters of a node
        // are copied; a node depends on the one before it, of the same graph.
        unsafe {
            cu!(cuGraphCreate(&mut self.raw.graph, 0))?;
            for (launch, maps) in self.launches.iter().zip(&self.maps) {
                let mut addresses = addresses(launch, maps);
                let params = node_params(launch, &mut addresses);
                let (mut node, before) = (null_mut(), self.nodes.last());
                let (before, count) =
                    before.map_or((std::ptr::null(), 0), |node| (&raw const *node, 1));
                cu!(cuGraphAddKernelNode_v2(&mut node, self.raw.graph, before, count, &params))?;
                self.nodes.push(node);
            }
            cu!(cuGraphInstantiateWithFlags(&mut self.raw.exec, self.raw.graph, 0))
        }
    }

    /// Gives the graph the parameters that it does not have yet.
    fn update(&mut self, stream: &StreamState) -> Result<(), Error> {
        self.gpu.enter()?;
        self.stale.sort_unstable();
        self.stale.dedup();
        while let Some(at) = self.stale.last().copied() {
            let (launch, node) = (&self.launches[at], self.nodes[at]);
            if !launch.maps.is_empty() {
                self.maps[at] = encode_all(&launch.maps, &launch.params)
                    .map_err(|why| self.gpu.stream_error(why, stream))?;
            }
            let mut addresses = addresses(launch, &self.maps[at]);
            let params = node_params(launch, &mut addresses);
            // SAFETY: the node is of the graph that the executable one was made of. Launches that are
            // enqueued have the parameters of before (CUDA driver API, graph management).
            unsafe { cu!(cuGraphExecKernelNodeSetParams_v2(self.raw.exec, node, &params)) }
                .map_err(|why| self.gpu.stream_error(why, stream))?;
            self.stale.pop();
        }
        Ok(())
    }
}

/// The address of each parameter.
fn addresses(launch: &RecordedLaunch, maps: &[CUtensorMap]) -> Vec<*mut c_void> {
    let address = |word: &u64| std::ptr::from_ref(word).cast_mut().cast::<c_void>();
    let maps = maps.iter().map(|map| std::ptr::from_ref(map).cast_mut().cast());
    launch.params.iter().map(address).chain(maps).collect()
}

fn node_params(launch: &RecordedLaunch, params: &mut [*mut c_void]) -> CUDA_KERNEL_NODE_PARAMS {
    let ([gx, gy, gz], [bx, by, bz]) = (launch.grid, launch.block);
    let func: CUfunction = std::ptr::with_exposed_provenance_mut(launch.kernel as usize);
    CUDA_KERNEL_NODE_PARAMS {
        func,
        gridDimX: gx,
        gridDimY: gy,
        gridDimZ: gz,
        blockDimX: bx,
        blockDimY: by,
        blockDimZ: bz,
        sharedMemBytes: launch.shared_bytes,
        kernelParams: params.as_mut_ptr(),
        extra: null_mut(),
        kern: null_mut(),
        ctx: null_mut(),
    }
}

impl Batch for Graph {
    unsafe fn replay(&mut self, changes: &[Change]) -> Result<(), Error> {
        for change in changes {
            let params = self.launches.get_mut(change.launch).map(|launch| &mut launch.params);
            let Some(param) = params.and_then(|params| params.get_mut(change.param)) else {
                return Err(Error::value_error(format!("{} has no such launch", self.name.text())));
            };
            if *param != change.value {
                *param = change.value;
                self.stale.push(change.launch);
            }
        }
        let gpu = self.gpu;
        gpu.is_alive()?;
        let state = gpu.stream(self.stream)?;
        if !self.stale.is_empty() {
            self.update(&state)?;
        }
        let (exec, stream) = (self.raw.exec, state.raw());
        // SAFETY: the graph is instantiated; what it uses is as the caller says.
        gpu.enqueue(|| unsafe { cu!(cuGraphLaunch(exec, stream)) })
            .map_err(|why| gpu.stream_error(why, &state))?;
        state.launched(self.name);
        Ok(())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        use reflex_runtime::device::Device;
        // What is enqueued uses the arena still.
        let done = self.gpu.stream(self.stream).and_then(|state| {
            self.gpu.enter()?;
            self.gpu.wait_for(&state)
        });
        if done.is_err() && self.gpu.is_lost() {
            return;
        }
        // SAFETY: both are this object's own, and no launch is left that uses them.
        unsafe {
            if !self.raw.exec.is_null() {
                let _ = cu!(cuGraphExecDestroy(self.raw.exec));
            }
            if !self.raw.graph.is_null() {
                let _ = cu!(cuGraphDestroy(self.raw.graph));
            }
        }
        (&self.gpu).end_arena(self.arena);
    }
}
