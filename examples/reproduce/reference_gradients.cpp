// SPDX-License-Identifier: BSD-3-Clause
#include "reference_gradients.hpp"

#include <normplace/analysis/encoder_decoder.hpp>
#include <normplace/measure/encoder_decoder.hpp>
#include <normplace/placement/catalogue.hpp>

namespace reproduce {

namespace np = normplace;

np::EncoderDecoderReport predict_gradients(const std::string& placement, const np::EncoderDecoderModel& model) {
    return placement == np::PreLN::name ? np::predict_encoder_decoder<np::PreLN, np::PreLN>(model)
                                        : np::predict_encoder_decoder<np::PostLN, np::PostLN>(model);
}

np::EncoderDecoderReport measure_gradients(const std::string& placement, const np::EncoderDecoderModel& model,
                                           std::size_t seeds) {
    return placement == np::PreLN::name ? np::measure_encoder_decoder<np::PreLN, np::PreLN>(model, {.seeds = seeds})
                                        : np::measure_encoder_decoder<np::PostLN, np::PostLN>(model, {.seeds = seeds});
}

}  // namespace reproduce
