// SPDX-License-Identifier: BSD-3-Clause
//
// The files that the options name, those that are read and those that are written.
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "options.hpp"

namespace shared {

/// Before any work is done: whether all files can be written and gnuplot is there to draw. Takes the plots of a default
/// run away when it is not, and says so.
/// @throws UsageError
void check_files(const char* program, Options& options);

/// Before any work is done. A machine that starts to swap is no help to anybody, so what cannot fit is refused.
/// @param runs how many models are wanted; each core has one at a time
/// @param copies of all the weights that one run holds
/// @throws UsageError which names the option
void check_memory(const char* option, const normplace::ReferenceModel& model, std::size_t runs, double copies);

/// The first bytes of the file: as many as `batches` batches need or, where there are more, `most`. Empty without
/// --text.
/// @throws UsageError when there is no such file or it is too short
std::string read_text(const Options& options, std::size_t batches, std::size_t most = 0);

/// Calls `write` with the file, "-" being standard output; not at all when no file is named.
void write_to(const std::string& file, const std::function<void(std::ostream&)>& write);

}  // namespace shared
