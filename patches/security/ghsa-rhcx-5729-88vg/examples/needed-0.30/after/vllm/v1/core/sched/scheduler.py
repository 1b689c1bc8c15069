class Scheduler:
    def schedule(self):
        while self.waiting:
            request = self.waiting.peek_request()
            if request.num_computed_tokens == 0:
                if self.connector is not None:
                    ext_tokens, load_kv_async = (
                        self.connector.get_num_new_matched_tokens(
                            request, block_aligned_local
                        )
                    )
                    if request.skip_reading_prefix_cache:
                        ext_tokens, load_kv_async = 0, False

                    if ext_tokens is None:
                        # The request cannot be scheduled because
                        # the KVConnector couldn't determine
                        # the number of matched tokens.
                        self.waiting.pop_request()
                        continue
