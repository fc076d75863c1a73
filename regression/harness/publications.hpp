#pragma once
// For programs in which a connection over MPI is to go wrong: Open MPI does each step of one by
// publishing something through mpirun (PMIx_Publish). In a program with publications.cpp something
// happens as it is to publish something for the N-th time: 1 is that it is there, 2 to 4 are steps
// in which two processes agree on their communicator.

namespace swarmpi {

/// Numbers count from 1.
void raise_at_publication(int number, int signal);
void fail_at_publication(int number);

}  // namespace swarmpi
