#pragma once
// All jobs and their results, for the few sources that handle any of them.

#include "protocol/messages/learning_jobs.hpp"
#include "protocol/messages/pass_jobs.hpp"
#include "protocol/messages/reduction_jobs.hpp"
#include "protocol/messages/update_jobs.hpp"
