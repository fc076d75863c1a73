#pragma once
// All events and actions, for the few sources that handle any of them.

#include "protocol/messages/collective_port.hpp"
#include "protocol/messages/compute_port.hpp"
#include "protocol/messages/message.hpp"
#include "protocol/messages/process_port.hpp"
#include "protocol/messages/progress_port.hpp"
#include "protocol/messages/record_port.hpp"
#include "protocol/messages/storage_port.hpp"
#include "protocol/messages/term_port.hpp"
#include "protocol/messages/transport_port.hpp"
