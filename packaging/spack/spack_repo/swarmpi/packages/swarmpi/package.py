"""SwarMPI for Spack 1.0 or later, built from a checkout: see docs/running.md, "Spack".

Written by the documentation and the recipes of Spack; not tried.
"""

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import depends_on, variant, version


class Swarmpi(CMakePackage):
    """Trains Transformer language models with SWARM parallelism on MPI."""

    homepage = "https://arxiv.org/abs/2301.11913"

    # There is no archive to download: `spack develop` says where the checkout is.
    version("main")

    variant("cuda", default=False, description="Kernels for NVIDIA GPUs")
    variant("postprocess", default=True, description="Python and what the pictures need")
    variant(
        "arch",
        default="x86-64-v3",
        values=str,
        description="-march of the fast kernels: the oldest processor among the nodes, or native",
    )

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    # With another MPI a lost rank ends the run.
    depends_on("mpi")
    depends_on("openmpi@5.0.10:", when="^[virtuals=mpi] openmpi")
    depends_on("onednn@2.6: cpu_runtime=omp")
    depends_on("kokkos@3.4:")
    depends_on("hdf5@1.10: ~mpi+hl")
    depends_on("tomlplusplus@3.3:")
    depends_on("cli11@2.1:")
    depends_on("fmt@8:")
    depends_on("nlohmann-json@3.10:")
    depends_on("xxhash@0.8:")
    depends_on("cuda@12:", when="+cuda")
    depends_on("python@3.11:", type="run", when="+postprocess")
    depends_on("py-h5py", type="run", when="+postprocess")
    depends_on("py-matplotlib", type="run", when="+postprocess")

    def cmake_args(self):
        return [
            self.define("BUILD_TESTING", False),
            self.define("SWARMPI_CUDA", "REQUIRED" if "+cuda" in self.spec else "OFF"),
            self.define_from_variant("SWARMPI_ARCH", "arch"),
            self.define("MPI_CXX_COMPILER", self.spec["mpi"].mpicxx),
            self.define("SWARMPI_MODULES", ""),
        ]

    def setup_run_environment(self, env):
        env.set("SWARMPI_SHARE", self.prefix.share.swarmpi)
        env.set("SWARMPI_ENV", self.prefix.join("env.sh"))
