// SPDX-License-Identifier: BSD-3-Clause
//
// The encoder-decoder of Gaussian tokens at initialization, predicted and measured: Figure 3's own question, without a
// corpus.
#pragma once

#include <normplace/analysis/encoder_decoder_report.hpp>
#include <string>

namespace reproduce {

/// @param placement pre-ln or post-ln, for both stacks
normplace::EncoderDecoderReport predict_gradients(const std::string& placement,
                                                  const normplace::EncoderDecoderModel& model);
normplace::EncoderDecoderReport measure_gradients(const std::string& placement,
                                                  const normplace::EncoderDecoderModel& model, std::size_t seeds);

}  // namespace reproduce
