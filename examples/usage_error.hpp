// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdexcept>

namespace command_line {

/// A fault of the command line or of a file that it names: one sentence, exit status 2.
struct UsageError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace command_line
